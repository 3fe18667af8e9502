#include "shim/duty.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kBegin = 1'000'000'000;  // a whole period of those below
constexpr governor::Duty kDuty{20'000, 6'000, 10'000};

DutyCycle NewCycle(const governor::Duty& duty = kDuty) {
  DutyCycle cycle;
  cycle.Set(duty, kBegin);
  return cycle;
}

TEST(Duty, SaysWhenItIsTime) {
  DutyCycle cycle = NewCycle();
  EXPECT_FALSE(cycle.Update(false, kBegin).on);
  EXPECT_EQ(cycle.State().until_us, kBegin + 10'000);
  EXPECT_TRUE(cycle.Update(false, kBegin + 10'000).on);
  EXPECT_EQ(cycle.State().until_us, kBegin + 16'000);
  EXPECT_TRUE(cycle.Update(true, kBegin + 15'999).on);
  EXPECT_FALSE(cycle.Update(true, kBegin + 16'000).on);
  EXPECT_EQ(cycle.State().until_us, kBegin + 30'000);
  EXPECT_TRUE(NewCycle({}).Update(true, kBegin).on);
}

TEST(Duty, AWindowThatEndedLateIsPaidForByTheNext) {
  DutyCycle cycle = NewCycle();
  cycle.Update(false, kBegin + 10'000);
  cycle.Update(true, kBegin + 18'000);  // late by 2 ms
  EXPECT_EQ(cycle.Update(false, kBegin + 30'000).until_us, kBegin + 34'000);
  // A further look meanwhile makes it no longer or shorter.
  EXPECT_EQ(cycle.Update(true, kBegin + 31'000).until_us, kBegin + 34'000);
  EXPECT_EQ(cycle.Update(true, kBegin + 34'000).until_us, kBegin + 50'000);
  EXPECT_FALSE(cycle.Update(false, kBegin + 35'000).on);
  EXPECT_EQ(cycle.Update(false, kBegin + 50'000).until_us, kBegin + 56'000);
}

TEST(Duty, WindowsOfWhichLittleWouldBeLeftAreLeftOut) {
  DutyCycle cycle = NewCycle();
  cycle.Update(false, kBegin + 10'000);
  cycle.Update(true, kBegin + 27'000);  // 11 ms too long
  EXPECT_EQ(cycle.State().until_us, kBegin + 50'000);
  EXPECT_FALSE(cycle.Update(false, kBegin + 31'000).on);
  EXPECT_FALSE(cycle.Update(false, kBegin + 35'900).on);
  // 5 ms are left to pay, which would leave 1 ms of 6.
  EXPECT_FALSE(cycle.Update(false, kBegin + 50'000).on);
  EXPECT_EQ(cycle.Update(false, kBegin + 70'000).until_us, kBegin + 76'000);
}

TEST(Duty, AWindowThatBeganLateIsNotMadeLonger) {
  DutyCycle cycle = NewCycle();
  EXPECT_EQ(cycle.Update(false, kBegin + 13'000).until_us, kBegin + 16'000);
  cycle.Update(true, kBegin + 16'000);
  EXPECT_EQ(cycle.Update(false, kBegin + 30'000).until_us, kBegin + 36'000);
  // 1 of its 3 ms is set off against a late end.
  cycle.Update(true, kBegin + 37'500);
  EXPECT_EQ(cycle.Update(false, kBegin + 50'000).until_us, kBegin + 55'500);
}

TEST(Duty, AMachineThatStoodStillDoesNotCostMuch) {
  DutyCycle cycle = NewCycle();
  cycle.Update(false, kBegin + 10'000);
  std::uint64_t now = kBegin + 60'000'000;
  cycle.Update(true, now);
  while (!cycle.State().on) {
    now = cycle.State().until_us;
    cycle.Update(false, now);
  }
  EXPECT_LE(now, kBegin + 60'000'000 + 250'000);
}

TEST(Duty, WhatIsOwedStaysOwedInOtherWindows) {
  DutyCycle cycle = NewCycle();
  cycle.Update(false, kBegin + 10'000);
  cycle.Update(true, kBegin + 18'000);
  cycle.Set(kDuty, kBegin + 20'000);
  EXPECT_EQ(cycle.Update(false, kBegin + 30'000).until_us, kBegin + 34'000);
  cycle.Update(true, kBegin + 38'000);
  cycle.Set({20'000, 6'000, 0}, kBegin + 39'000);
  EXPECT_FALSE(cycle.Update(false, kBegin + 39'000).on);
  EXPECT_EQ(cycle.Update(false, kBegin + 40'000).until_us, kBegin + 42'000);
  cycle.Set({}, kBegin + 41'000);
  cycle.Set(kDuty, kBegin + 42'000);
  (void)cycle.Update(false, kBegin + 42'000);
  EXPECT_EQ(cycle.Update(false, kBegin + 50'000).until_us, kBegin + 56'000) << "no windows between";
}

// However late the clock is: over a second and more the container is never on for longer than it is
// to be, except for the last window and the time that need not be paid back.
RC_GTEST_PROP(Duty, LatenessGivesNoMore, ()) {
  const std::uint32_t period = 1000 * *rc::gen::inRange<std::uint32_t>(1, 101);
  const std::uint32_t on = *rc::gen::inRange<std::uint32_t>(1, period + 1);
  const std::uint32_t phase = *rc::gen::inRange<std::uint32_t>(0, period - on + 1);
  // At most as late as the largest debt.
  const std::uint64_t most_late = 200'000ULL * on / period;
  DutyCycle cycle = NewCycle({period, on, phase});
  std::uint64_t now = kBegin;
  std::uint64_t had = 0;
  bool ran = false;
  cycle.Update(false, now);
  while (now < kBegin + 3'000'000) {
    const std::uint64_t late = *rc::gen::inRange<std::uint64_t>(0, most_late / 2 + 1);
    ran = cycle.State().on;
    const std::uint64_t next = cycle.State().until_us + late;
    had += ran ? next - now : 0;
    now = next;
    cycle.Update(ran, now);
  }
  const std::uint64_t passed = now - kBegin;
  RC_ASSERT(had <= passed * on / period + on + most_late);
}

TEST(DutyCycle, WhatRanOnIsPaidFor) {
  DutyCycle cycle;
  cycle.Set({20'000, 4'000, 0}, 1'000'000);
  EXPECT_TRUE(cycle.Update(false, 1'000'000).on);
  EXPECT_FALSE(cycle.Update(true, 1'004'000).on);
  cycle.Overran(8'000);
  // Uses up two windows.
  EXPECT_FALSE(cycle.Update(false, 1'020'000).on);
  EXPECT_FALSE(cycle.Update(false, 1'040'000).on);
  EXPECT_TRUE(cycle.Update(false, 1'060'000).on);
  DutyCycle none;
  none.Overran(8'000);
  EXPECT_TRUE(none.Update(true, 1'000'000).on);
}

}  // namespace
}  // namespace cgpu::shim
