#include "calibration/record.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace cgpu {
namespace {

using governor::Effect;

CardRecord Full() {
  CardRecord record{"GPU-1", "NVIDIA H200", "580.159.04", "2026-11-29T10:00:00Z", {}};
  record.calibration.card = {Effect::kRestart, true, Effect::kAtOnce, true, true, true, 41};
  record.calibration.figures = {{"taking off, us", 455.5}, {"a share, %", 80.25}};
  return record;
}

TEST(CardRecord, IsReadAsItWasWritten) {
  const auto read = DecodeCard(EncodeCard(Full()));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->uuid, "GPU-1");
  EXPECT_EQ(read->model, "NVIDIA H200");
  EXPECT_EQ(read->driver, "580.159.04");
  EXPECT_EQ(read->when, "2026-11-29T10:00:00Z");
  EXPECT_EQ(read->calibration.card, Full().calibration.card);
  EXPECT_EQ(read->calibration.figures, Full().calibration.figures);
}

TEST(CardRecord, TakesWhatItDoesNotKnowForUnknown) {
  const auto read = DecodeCard(
      R"({"uuid":"GPU-1","driver":"1","holds":false,"slices":"by magic","off":7,"levels":"yes","figures":[1]})");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->calibration.card, governor::Card{});
  EXPECT_TRUE(read->calibration.figures.empty());
}

TEST(CardRecord, IsNoneWithoutAGpuOrADriver) {
  for (const char* text : {"", "[]", "{}", R"({"uuid":"GPU-1"})", R"({"driver":"1"})", "{"}) {
    EXPECT_FALSE(DecodeCard(text).ok()) << text;
  }
}

TEST(CardRecord, HoldsForItsGpuAndDriverAlone) {
  const std::string folder = testing::TempDir() + "/cards";
  ASSERT_TRUE(WriteCard(folder, Full()).ok());
  const auto of = [&](const char* uuid, const char* driver) {
    const auto read = ReadCard(folder, uuid, driver);
    return read.ok() && read->has_value();
  };
  EXPECT_TRUE(of("GPU-1", "580.159.04"));
  EXPECT_FALSE(of("GPU-1", "580.159.05"));
  EXPECT_FALSE(of("GPU-2", "580.159.04"));
  CardRecord other = Full();
  other.uuid = "GPU-3";
  ASSERT_TRUE(WriteFile(folder + "/GPU-2.json", EncodeCard(other)).ok());
  EXPECT_FALSE(of("GPU-2", "580.159.04"));
  ASSERT_TRUE(WriteFile(folder + "/GPU-2.json", "{").ok());
  EXPECT_FALSE(of("GPU-2", "580.159.04")) << "one that is broken is none";
}

TEST(CardRecord, NamesEveryEffect) {
  for (const Effect effect : {Effect::kUnknown, Effect::kAtOnce, Effect::kSchedule,
                              Effect::kPreempt, Effect::kRestart, Effect::kNone}) {
    CardRecord record = Full();
    record.calibration.card.slices = effect;
    EXPECT_EQ(DecodeCard(EncodeCard(record))->calibration.card.slices, effect);
    EXPECT_FALSE(Describe(effect).empty());
  }
}

}  // namespace
}  // namespace cgpu
