#include "load/rmtool/options.h"

#include <gtest/gtest.h>

namespace cgpu::rmtool {
namespace {

TEST(ParseOptions, ReadsEveryCommand) {
  EXPECT_EQ(ParseOptions({"info"})->verb, Verb::kInfo);
  EXPECT_EQ(ParseOptions({"--help"})->verb, Verb::kHelp);
  const Result<Options> alloc = ParseOptions({"alloc", "100", "--gpu", "1", "--chunk", "2"});
  EXPECT_EQ(alloc->verb, Verb::kAlloc);
  EXPECT_EQ(alloc->mib, 100U);
  EXPECT_EQ(alloc->gpu, 1U);
  EXPECT_EQ(alloc->chunk_mib, 2U);
  EXPECT_EQ(ParseOptions({"hold", "5", "--forever"})->verb, Verb::kHold);
  const Result<Options> raw =
      ParseOptions({"--dev", "/x", "raw", "alloc", "1", "--type", "0x47", "--dir", "0", "--upper",
                    "0xdeadbeef", "--xfer", "--short", "--class", "0x3e", "--page", "huge"});
  EXPECT_EQ(raw->verb, Verb::kRawAlloc);
  EXPECT_EQ(raw->dev, "/x");
  EXPECT_EQ(raw->type, 0x47U);
  EXPECT_EQ(raw->direction, 0U);
  EXPECT_EQ(raw->upper, 0xdeadbeefU);
  EXPECT_TRUE(raw->xfer && raw->short_form);
  EXPECT_EQ(raw->class_number, 0x3eU);
  EXPECT_EQ(raw->page, Page::kHuge);
  const Result<Options> ioctl = ParseOptions({"raw", "ioctl", "0xd2", "72", "--data", "32000000"});
  EXPECT_EQ(ioctl->nr, 0xd2U);
  EXPECT_EQ(ioctl->size, 72U);
  EXPECT_EQ(ioctl->data, (std::vector<std::uint8_t>{0x32, 0, 0, 0}));
}

TEST(ParseOptions, RefusesWhatMakesNoSense) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"bogus"},
      {"alloc"},
      {"alloc", "x"},
      {"alloc", "-1"},
      {"alloc", "0x"},
      {"alloc", "1", "2"},
      {"alloc", "99999999999999999999"},
      {"alloc", "1", "--chunk", "0"},
      {"alloc", "1", "--gpu"},
      {"alloc", "1", "--gpu", "32"},
      {"alloc", "1", "--bogus", "1"},
      {"alloc", "1", "--page", "giant"},
      {"raw", "alloc"},
      {"raw", "ioctl", "256", "0"},
      {"raw", "ioctl", "1", "0", "--data", "123"},
      {"raw", "ioctl", "1", "0", "--data", "zz"},
      {"raw", "alloc", "1", "--dir", "4"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const Result<Options> options = ParseOptions(arguments);
    std::string line;
    for (const std::string& argument : arguments) {
      line += argument + " ";
    }
    ASSERT_FALSE(options.ok()) << line;
    EXPECT_EQ(options.error().code, Code::kInvalid) << line;
    EXPECT_FALSE(options.error().hint.empty()) << line;
  }
}

}  // namespace
}  // namespace cgpu::rmtool
