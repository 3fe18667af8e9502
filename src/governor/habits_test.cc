#include "governor/habits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace cgpu::governor {
namespace {

TEST(Habits, KnowsNothingOfAStranger) {
  const Habits habits;
  EXPECT_DOUBLE_EQ(habits.Of(7).works, 0.5);
  EXPECT_DOUBLE_EQ(habits.Of(7).burst, 0);
}

TEST(Habits, LearnsWhatAWindowOfOneProcessSays) {
  Habits habits;
  for (int window = 0; window < 200; ++window) {
    habits.Learn({{7, 1, 0}}, 0.2);
  }
  EXPECT_NEAR(habits.Of(7).works, 0.2, 0.01);
}

// Two that are always there for nearly the same parts: what little they differ by tells.
TEST(Habits, TellsApartTwoThatAreThereTogether) {
  Habits habits;
  std::mt19937 random(3);
  for (int window = 0; window < 300; ++window) {
    const double first = 0.45 + static_cast<double>(random() % 100) / 1000;
    const double second = 0.9 - first;
    habits.Learn({{1, first, 2}, {2, second, 2}}, first + 0.2 * second);
  }
  EXPECT_NEAR(habits.Of(1).works, 1, 0.05);
  EXPECT_NEAR(habits.Of(2).works, 0.2, 0.05);
}

// A process that works once each time it comes, for short or for long stays.
TEST(Habits, TellsABurstFromAPartOfTheTime) {
  Habits habits;
  std::mt19937 random(4);
  for (int window = 0; window < 1000; ++window) {
    const auto turns = static_cast<double>(random() % 20);
    const double there = 0.3 + static_cast<double>(random() % 400) / 1000;
    habits.Learn({{1, there, turns}}, turns * 0.01);
  }
  EXPECT_NEAR(habits.Of(1).burst, 0.01, 0.002);
  EXPECT_NEAR(habits.Of(1).works, 0, 0.05);
}

TEST(Habits, KeepsThoseSeenLast) {
  Habits habits;
  for (int window = 0; window < 20; ++window) {
    habits.Learn({{1, 1, 0}}, 0);
  }
  const double learnt = habits.Of(1).works;
  ASSERT_LT(learnt, 0.2);
  for (std::uint32_t pid = 2; pid <= Habits::kMost; ++pid) {
    habits.Learn({{pid, 1, 0}}, 0);
  }
  EXPECT_NEAR(habits.Of(1).works, learnt, 0.05);
  habits.Learn({{1000, 1, 0}}, 0);
  EXPECT_DOUBLE_EQ(habits.Of(1).works, 0.5) << "it was the one not seen for longest";
  EXPECT_LT(habits.Of(2).works, 0.5);
}

}  // namespace
}  // namespace cgpu::governor
