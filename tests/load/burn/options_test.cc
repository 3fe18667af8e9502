#include "load/burn/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgpu::burn {
namespace {

using testing::HasSubstr;

TEST(ParseOptions, ByDefaultKeepsAQueueOfMillisecondsFull) {
  const auto line = ParseOptions({});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->options.shape.launch_ns(), 1'000'000U);
  EXPECT_EQ(line->options.shape.queue, 64U);
  EXPECT_FALSE(line->options.shape.rigid || line->options.json || line->options.each);
  EXPECT_FALSE(line->options.pace.seconds || line->options.pace.count || line->options.pace.rate);
  EXPECT_FALSE(line->options.pace.duty_percent || line->text);
}

TEST(ParseOptions, ReadsEveryOption) {
  const auto line = ParseOptions({"--kernel-us", "200",       "--queue", "1",
                                  "--graph",     "3",         "--gpu",   "1",
                                  "--rigid",     "--cuda",    "--wide",  "--steps",
                                  "9",           "--gap-us",  "50",      "--gap-spread-us",
                                  "60",          "--seconds", "2",       "--count",
                                  "7",           "--json"});
  ASSERT_TRUE(line.ok()) << line.error().what;
  const Options& options = line->options;
  EXPECT_EQ(options.shape.launch_ns(), 600'000U);
  EXPECT_EQ(options.shape.queue, 1U);
  EXPECT_EQ(options.shape.gpu, 1U);
  EXPECT_TRUE(options.shape.rigid && options.json);
  EXPECT_TRUE(options.shape.cuda && options.shape.wide);
  EXPECT_EQ(options.shape.steps, 9U);
  EXPECT_EQ(options.pace.gap_us, 50U);
  EXPECT_EQ(options.pace.gap_spread_us, 60U);
  EXPECT_EQ(options.pace.seconds, 2U);
  EXPECT_EQ(options.pace.count, 7U);
  const auto duty = ParseOptions({"--duty", "30", "--period-ms", "20"});
  ASSERT_TRUE(duty.ok());
  EXPECT_EQ(duty->options.pace.duty_percent, 30U);
  EXPECT_EQ(duty->options.pace.period_ms, 20U);
  const auto rate = ParseOptions({"--rate", "40", "--each", "--seed", "5"});
  ASSERT_TRUE(rate.ok());
  EXPECT_EQ(rate->options.pace.rate, 40U);
  EXPECT_EQ(rate->options.pace.seed, 5U);
  EXPECT_TRUE(rate->options.each);
}

TEST(ParseOptions, RefusesWhatMakesNoSense) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--gap-us", "5"}, "--queue 1"},
      {{"--gap-spread-us", "5", "--queue", "1"}, "give --gap-us"},
      {{"--gap-us", "5", "--queue", "1", "--duty", "5"}, "give one"},
      {{"--rate", "5", "--duty", "5"}, "give one"},
      {{"--rate", "5", "--gap-us", "5", "--queue", "1"}, "give one"},
      {{"--rate", "0"}, "--rate"},
      {{"--period-ms", "5"}, "--duty"},
      {{"--kernel-us", "0"}, "--kernel-us"},
      {{"--kernel-us", "-1"}, "--kernel-us"},
      {{"--queue", "x"}, "--queue"},
      {{"--queue", "4097"}, "--queue"},
      {{"--graph", "1025"}, "--graph"},
      {{"--steps", "0"}, "--steps"},
      {{"--duty", "101"}, "--duty"},
      {{"--seconds"}, "--seconds"},
      {{"--fast"}, "--fast"},
      {{"word"}, "word"}};
  for (const auto& [arguments, words] : cases) {
    const auto line = ParseOptions(arguments);
    ASSERT_FALSE(line.ok()) << words;
    EXPECT_EQ(line.error().code, Code::kInvalid);
    EXPECT_THAT(line.error().what, HasSubstr(words));
  }
}

TEST(ParseOptions, HasHelp) {
  const auto line = ParseOptions({"--help"});
  ASSERT_TRUE(line.ok() && line->text);
  EXPECT_THAT(*line->text, HasSubstr("--kernel-us"));
}

}  // namespace
}  // namespace cgpu::burn
