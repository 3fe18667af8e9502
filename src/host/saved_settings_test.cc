#include "host/saved_settings.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace cgpu {
namespace {

using testing::HasSubstr;

TEST(SavedSettings, AreTheSameAfterEncodingAndDecoding) {
  SavedByGpu saved;
  saved["GPU-1"].policy = governor::Policy::kFixed;
  saved["GPU-1"].prio_ratio = 99;
  saved["GPU-2"].policy = std::optional<governor::Policy>();
  saved["GPU-2"].max_inst = 64;
  const std::string text = EncodeSaved(saved);
  EXPECT_EQ(text,
            "GPU-1 policy fixed\nGPU-1 prio_ratio 99\nGPU-2 policy auto\nGPU-2 max_inst 64\n.\n");
  const auto decoded = DecodeSaved(text);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(EncodeSaved(*decoded), text);
  EXPECT_TRUE(decoded->at("GPU-2").policy.has_value());
  EXPECT_FALSE(decoded->at("GPU-1").max_inst.has_value());
  for (std::size_t n = 0; n + 1 < text.size(); ++n) {
    EXPECT_FALSE(DecodeSaved(text.substr(0, n)).ok()) << n;
  }
  EXPECT_TRUE(DecodeSaved("GPU-1 weather fine\n.\n").ok());
  for (const char* wrong : {"GPU-1 policy fast\n.\n", "GPU-1 max_inst 65\n.\n", "GPU-1 policy\n.\n",
                            "GPU-1 prio_ratio 19\n.\n", "../x policy fixed\n.\n"}) {
    EXPECT_FALSE(DecodeSaved(wrong).ok()) << wrong;
  }
}

TEST(SavedSettings, AChangeKeepsWhatItDoesNotName) {
  SavedSettings before;
  before.policy = governor::Policy::kFixed;
  before.max_inst = 3;
  SavedSettings change;
  change.policy = std::optional<governor::Policy>();
  change.prio_ratio = 50;
  const SavedSettings after = Merged(before, change);
  EXPECT_EQ(EncodeSaved({{"G", after}}), "G policy auto\nG max_inst 3\nG prio_ratio 50\n.\n");
  EXPECT_TRUE(SavedSettings().empty());
  EXPECT_FALSE(after.empty());
}

TEST(SavedSettings, NumbersHaveARange) {
  EXPECT_EQ(*ParseMaxInst("1"), 1U);
  EXPECT_EQ(*ParseMaxInst("64"), 64U);
  EXPECT_EQ(*ParsePrioRatio("20"), 20U);
  EXPECT_EQ(*ParsePrioRatio("99"), 99U);
  for (const char* wrong : {"", "0", "65", "-1", "many", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(ParseMaxInst(wrong).error().what, HasSubstr("from 1 to 64")) << wrong;
  }
  for (const char* wrong : {"", "19", "100"}) {
    EXPECT_THAT(ParsePrioRatio(wrong).error().what, HasSubstr("from 20 to 99")) << wrong;
  }
}

TEST(SavedSettings, TheFileIsForAllToRead) {
  const std::string folder = testing::TempDir() + "/saved-" + std::to_string(getpid());
  const std::string path = folder + "/policy";
  EXPECT_TRUE(ReadSaved(path)->empty());
  SavedByGpu saved;
  saved["GPU-1"].max_inst = 7;
  const mode_t before = umask(077);
  const auto written = WriteSaved(path, saved);
  umask(before);
  ASSERT_TRUE(written.ok());
  struct stat now{};
  ASSERT_EQ(stat(path.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 07777, 0644);
  EXPECT_EQ(ReadSaved(path)->at("GPU-1").max_inst, 7U);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cgpu
