// When orders take effect, on GPUs that differ in it.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/engine/tests/world.h"

namespace cgpu::sim::engine::testing {
namespace {

// Two groups whose queues are full, and a third one without work.
struct Pair {
  explicit Pair(const Costs& costs) : world(costs), a(world, 1), b(world, 2), idle(world, 3) {
    a.Saturate(kMillisecond);
    b.Saturate(kMillisecond);
    world.Run(10 * kMillisecond);
  }
  // Returns the first one's part of what both get in two seconds, in percent.
  double Share() {
    const Duration a_before = a.Accounting().gpu_time_ns;
    const Duration b_before = b.Accounting().gpu_time_ns;
    RunAll(world, std::array{&a, &b}, {}, 2 * kSecond);
    const auto of_a = static_cast<double>(a.Accounting().gpu_time_ns - a_before);
    const auto of_b = static_cast<double>(b.Accounting().gpu_time_ns - b_before);
    return 100 * of_a / (of_a + of_b);
  }
  void Set() {
    world.gpu.SetTimeslice(1, 8000);
    world.gpu.SetTimeslice(2, 2000);
  }

  World world;
  Client a;
  Client b;
  Client idle;
};

void Trigger(Gpu& gpu, const std::string& what) {
  if (what == "preempt") {
    static_cast<void>(gpu.Preempt(1));
    static_cast<void>(gpu.Preempt(2));
  } else if (what == "own schedule") {
    static_cast<void>(gpu.Schedule(1, true));
    static_cast<void>(gpu.Schedule(2, true));
  } else if (what == "another's schedule") {
    static_cast<void>(gpu.Schedule(3, true));
  } else if (what == "restart") {
    static_cast<void>(gpu.Restart(3));
  }
}

TEST(Effects, ATimeSliceTakesEffectByWhatTheGpuNeeds) {
  const std::map<SliceEffect, std::set<std::string>> by{
      {SliceEffect::kAtOnce,
       {"nothing", "preempt", "own schedule", "another's schedule", "restart"}},
      {SliceEffect::kPreempt, {"preempt", "restart"}},
      {SliceEffect::kOwnSchedule, {"own schedule", "restart"}},
      {SliceEffect::kAnySchedule, {"own schedule", "another's schedule", "restart"}},
      {SliceEffect::kRestart, {"restart"}},
      {SliceEffect::kNotAtAll, {}}};
  for (const auto& [effect, triggers] : by) {
    for (const std::string& what : by.at(SliceEffect::kAtOnce)) {
      SCOPED_TRACE(std::to_string(static_cast<int>(effect)) + ", " + what);
      Costs costs;
      costs.slice_effect = effect;
      Pair pair(costs);
      pair.Set();
      Trigger(pair.world.gpu, what);
      EXPECT_NEAR(triggers.contains(what) ? 80 : 50, pair.Share(), 1);
    }
  }
}

TEST(Effects, ATimeSliceMayBeSetBeforeTheFirstSchedule) {
  for (const auto& [effect, share] : {std::pair(SliceEffect::kAtOnce, 80),
                                      {SliceEffect::kPreempt, 80},
                                      {SliceEffect::kOwnSchedule, 80},
                                      {SliceEffect::kAnySchedule, 80},
                                      {SliceEffect::kRestart, 50},
                                      {SliceEffect::kNotAtAll, 50}}) {
    SCOPED_TRACE(static_cast<int>(effect));
    Costs costs;
    costs.slice_effect = effect;
    Pair pair(costs);
    for (const GroupKey group : {1U, 2U}) {
      static_cast<void>(pair.world.gpu.Schedule(group, false));
    }
    pair.Set();
    for (const GroupKey group : {1U, 2U}) {
      static_cast<void>(pair.world.gpu.Schedule(group, true));
    }
    EXPECT_NEAR(share, pair.Share(), 1);
  }
}

TEST(Effects, TheLastTimeSliceThatWasSetTakesEffect) {
  Costs costs;
  costs.slice_effect = SliceEffect::kRestart;
  Pair pair(costs);
  pair.Set();
  pair.world.gpu.SetTimeslice(1, 2000);
  static_cast<void>(pair.world.gpu.Restart(1));
  EXPECT_NEAR(50, pair.Share(), 1);
  EXPECT_EQ(1U, pair.world.gpu.Runlist(kGraphics).restarts);
}

TEST(Effects, ARestartEndsTheTimeSliceThatRuns) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  world.gpu.SetTimeslice(1, 1'000'000);
  a.Saturate(10 * kSecond);
  b.Submit(b.Launch(kMillisecond));
  world.Run(kMillisecond);
  EXPECT_TRUE(a.Accounting().running);
  static_cast<void>(world.gpu.Restart(2));
  world.Run(2 * kMillisecond);
  EXPECT_EQ(1U, b.Accounting().kernels);
}

TEST(Effects, ScheduledChannelsGoOffAtARestart) {
  Costs costs;
  costs.disable_effect = DisableEffect::kRestart;
  World world(costs);
  Client a(world, 1);
  a.Submit(a.Launch(100 * kMillisecond));
  world.Run(kMillisecond);
  const std::array<ChannelKey, 1> which{1};
  const auto runs = [&] {
    const Duration before = a.Accounting().gpu_time_ns;
    world.Run(10 * kMillisecond);
    return a.Accounting().gpu_time_ns != before;
  };
  static_cast<void>(world.gpu.Disable(which, true, false));
  EXPECT_TRUE(runs());
  EXPECT_EQ(world.gpu.Now() + 300 * kMicrosecond, world.gpu.Restart(1));
  EXPECT_FALSE(runs());
  static_cast<void>(world.gpu.Disable(which, false, false));
  EXPECT_FALSE(runs());
  static_cast<void>(world.gpu.Restart(1));
  EXPECT_TRUE(runs());
  EXPECT_EQ(0U, a.Accounting().kernels);
  world.Run(100 * kMillisecond);
  EXPECT_EQ(1U, a.Accounting().kernels);
}

TEST(Effects, ChannelsMayGoOffForGood) {
  Costs costs;
  costs.disable_effect = DisableEffect::kForGood;
  World world(costs);
  Client a(world, 1);
  a.Submit(a.Launch(kMillisecond));
  const std::array<ChannelKey, 1> which{1};
  static_cast<void>(world.gpu.Disable(which, true, false));
  static_cast<void>(world.gpu.Disable(which, false, false));
  static_cast<void>(world.gpu.Restart(1));
  world.Run(10 * kMillisecond);
  EXPECT_EQ(0U, a.Accounting().kernels);
}

TEST(Effects, ChannelsThatAreNotScheduledGoOffAtOnce) {
  Costs costs;
  costs.disable_effect = DisableEffect::kRestart;
  World world(costs);
  Client a(world, 1);
  static_cast<void>(world.gpu.Schedule(1, false));
  static_cast<void>(world.gpu.Disable(std::array<ChannelKey, 1>{1}, true, false));
  static_cast<void>(world.gpu.Schedule(1, true));
  a.Submit(a.Launch(kMillisecond));
  world.Run(10 * kMillisecond);
  EXPECT_EQ(0U, a.Accounting().gpu_time_ns);
}

TEST(Effects, ARestartOfAChannelThatIsNotThereDoesNothing) {
  World world;
  EXPECT_EQ(0U, world.gpu.Restart(7));
}

}  // namespace
}  // namespace cgpu::sim::engine::testing
