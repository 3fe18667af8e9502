#include "grant/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cgpu {
namespace {

using testing::HasSubstr;
using Kind = MemoryRequest::Kind;

TEST(ParseSize, TakesWhatTheContractLists) {
  struct Case {
    const char* text;
    Kind kind;
    std::uint64_t value;
  };
  constexpr Case kCases[] = {
      {"4096MiB", Kind::kMib, 4096},    {"4GiB", Kind::kMib, 4096},
      {"4G", Kind::kMib, 4096},         {"25%", Kind::kPercent, 25},
      {"512", Kind::kMib, 512},         {"1MiB", Kind::kMib, 1},
      {"4g", Kind::kMib, 4096},         {"512m", Kind::kMib, 512},
      {"2Gi", Kind::kMib, 2048},        {"1TiB", Kind::kMib, 1 << 20},
      {"100%", Kind::kPercent, 100},    {"0064", Kind::kMib, 64},
      {"3GB", Kind::kMib, 3072},        {"3072MB", Kind::kMib, 3072},
      {"3.5GiB", Kind::kMib, 3584},     {"0.25G", Kind::kMib, 256},
      {"1.500000gb", Kind::kMib, 1536}, {"2.0MiB", Kind::kMib, 2},
      {"0.5TB", Kind::kMib, 1 << 19},
  };
  for (const Case& c : kCases) {
    const auto size = ParseSize(c.text);
    ASSERT_TRUE(size.ok()) << c.text;
    EXPECT_EQ((*size).kind, c.kind) << c.text;
    EXPECT_EQ((*size).value, c.value) << c.text;
  }
}

struct Wrong {
  const char* text;
  const char* says;
};

TEST(ParseSize, RefusesTheRestAndSaysWhy) {
  constexpr Wrong kCases[] = {
      {"", "is empty"},
      {"0", "is zero"},
      {"0GiB", "is zero"},
      {"0%", "not from 1% to 100%"},
      {"101%", "not from 1% to 100%"},
      {"-1", "is negative"},
      {"-4GiB", "is negative"},
      {"1.3GiB", "is no whole number of MiB"},
      {"0.3MiB", "is no whole number of MiB"},
      {"0.0GiB", "is zero"},
      {"1.0000005GiB", "is a fraction"},
      {"1.99999999999999999999999GiB", "is a fraction"},
      {"512.5", "is a fraction"},
      {"17592186044415.5TiB", "is too large"},
      {"1.5.5GiB", "unknown unit"},
      {"3", "is 3 MiB, in which no program can start"},
      {"063", "is 63 MiB"},
      {"1,5G", "is a fraction"},
      {"12.5%", "is a fraction"},
      {".5", "is not a number"},
      {"lots", "is not a number"},
      {"+4G", "is not a number"},
      {" 4G", "is not a number"},
      {"0x10", "unknown unit \"x10\""},
      {"1e3", "unknown unit \"e3\""},
      {"4 GiB", "unknown unit"},
      {"4PB", "unknown unit \"PB\""},
      {"4096KiB", "unknown unit"},
      {"4G4G", "unknown unit"},
      {"4%%", "unknown unit"},
      {"18446744073709551616", "is too large"},
      {"18446744073709551615", "is too large"},
      {"18446744073709551615GiB", "is too large"},
      {"17592186044416GiB", "is too large"},
      {"99999999999999999999%", "is too large"},
      {"-", "is not a number"},
  };
  for (const Wrong& c : kCases) {
    const auto size = ParseSize(c.text);
    ASSERT_FALSE(size.ok()) << c.text;
    EXPECT_EQ(size.error().code, Code::kInvalid);
    EXPECT_THAT(size.error().what, HasSubstr(c.says)) << c.text;
    EXPECT_FALSE(size.error().hint.empty()) << c.text;
  }
}

TEST(ParseSize, SaysWhatFits) {
  EXPECT_EQ(ParseSize("3").error().hint, "did you mean 3GiB?");
  EXPECT_EQ(ParseSize("3.3GiB").error().hint, "write 3379MiB");
}

TEST(ParseSize, QuotesNothingATerminalWouldInterpret) {
  const auto size = ParseSize("\033[31m" + std::string(1000, 'x'));
  ASSERT_FALSE(size.ok());
  EXPECT_EQ(size.error().what.find('\033'), std::string::npos);
  EXPECT_LT(size.error().what.size(), 200U);
}

TEST(ParsePercent, TakesAWholeNumberWithOrWithoutItsSign) {
  EXPECT_EQ(*ParsePercent("30", "x"), 30U);
  EXPECT_EQ(*ParsePercent("100%", "x"), 100U);
  for (const char* wrong : {"", "%", "0%", "101%", "30%%", "3.5%", "-1%", "30 %", "x"}) {
    EXPECT_FALSE(ParsePercent(wrong, "x").ok()) << wrong;
  }
}

TEST(ParseUnits, TakesAPositiveWholeNumber) {
  const auto units = ParseUnits("8");
  ASSERT_TRUE(units.ok());
  EXPECT_EQ((*units).kind, Kind::kUnits);
  EXPECT_EQ((*units).value, 8U);
  for (const char* text : {"", "0", "-2", "1.5", "8G", "all", "18446744073709551616", "9999999"}) {
    EXPECT_FALSE(ParseUnits(text).ok()) << text;
  }
}

TEST(ParseGpus, TakesDockersGrammar) {
  EXPECT_EQ((*ParseGpus("all")).kind, GpuRequest::Kind::kAll);
  EXPECT_EQ((*ParseGpus("2")).count, 2U);
  EXPECT_THAT((*ParseGpus("device=0,2")).devices, testing::ElementsAre("0", "2"));
  EXPECT_THAT((*ParseGpus("\"device=0,2\"")).devices, testing::ElementsAre("0", "2"));
  EXPECT_THAT((*ParseGpus("device=GPU-8a56")).devices, testing::ElementsAre("GPU-8a56"));
  EXPECT_EQ((*ParseGpus("device=all")).kind, GpuRequest::Kind::kAll);
}

TEST(ParseGpus, RefusesTheRestAndSaysWhy) {
  constexpr Wrong kCases[] = {
      {"", "is empty"},
      {"0", "is zero"},
      {"-1", "is negative"},
      {"1.5", "is a fraction"},
      {"some", "is not a number"},
      {"99999999999999999999", "is too large"},
      {"device=", "empty entry"},
      {"device=0,", "empty entry"},
      {"device=,1", "empty entry"},
      {"device=0,,1", "empty entry"},
      {"device=-1", "neither a GPU's index nor its UUID"},
      {"device=0 1", "neither a GPU's index nor its UUID"},
      {"device=../0", "neither a GPU's index nor its UUID"},
      {"capabilities=utility", "is not understood"},
      {"all,capabilities=utility", "is not understood"},
  };
  for (const Wrong& c : kCases) {
    const auto gpus = ParseGpus(c.text);
    ASSERT_FALSE(gpus.ok()) << c.text;
    EXPECT_EQ(gpus.error().code, Code::kInvalid);
    EXPECT_THAT(gpus.error().what, HasSubstr(c.says)) << c.text;
    EXPECT_FALSE(gpus.error().hint.empty()) << c.text;
  }
}

}  // namespace
}  // namespace cgpu
