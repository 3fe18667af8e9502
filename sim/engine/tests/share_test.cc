// How the engine is divided: slices, switches, priorities, and orders that take groups off it.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "sim/engine/tests/world.h"

namespace cgpu::sim::engine::testing {
namespace {

double Percent(Duration part, Duration whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

struct Shares {
  std::vector<double> each;  // of the time that the engine was at work
  double busy = 0;
};

Shares Measure(World& world, std::span<Client* const> saturating,
               std::span<Client* const> alternating, Duration time) {
  RunAll(world, saturating, alternating, time);
  const RunlistAccounting accounting = world.gpu.Runlist(kGraphics);
  Shares shares;
  for (const auto& clients : {saturating, alternating}) {
    for (const Client* client : clients) {
      shares.each.push_back(Percent(client->Accounting().gpu_time_ns, accounting.busy_ns));
    }
  }
  shares.busy = Percent(accounting.busy_ns, world.gpu.Now());
  return shares;
}

// The four figures that a round-robin model with a switch of 40 us gives.

TEST(Share, SlicesInRatioDivideSaturatingGroups) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  world.gpu.SetTimeslice(1, 3000);
  world.gpu.SetTimeslice(2, 7000);
  a.Saturate(kMillisecond);
  b.Saturate(kMillisecond);
  const Shares shares = Measure(world, std::array{&a, &b}, {}, 10 * kSecond);
  EXPECT_NEAR(30.0, shares.each[0], 0.15);  // 3000 us become 2998.3, 7000 become 6979.6
  EXPECT_NEAR(70.0, shares.each[1], 0.15);
  EXPECT_NEAR(99.2, shares.busy, 0.05);
}

TEST(Share, KernelsShorterThanTheirSliceDivideEqually) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  world.gpu.SetTimeslice(1, 3000);
  world.gpu.SetTimeslice(2, 7000);
  a.Alternate(kMillisecond);
  b.Alternate(kMillisecond);
  const Shares shares = Measure(world, {}, std::array{&a, &b}, 10 * kSecond);
  EXPECT_NEAR(50.0, shares.each[0], 0.1);
  EXPECT_NEAR(50.0, shares.each[1], 0.1);
}

TEST(Share, WhoWaitsForEachKernelLosesToWhoQueues) {
  World world;
  Client queued(world, 1);
  Client waiting(world, 2);
  world.gpu.SetTimeslice(1, 5000);
  world.gpu.SetTimeslice(2, 5000);
  queued.Saturate(kMillisecond);
  waiting.Alternate(100 * kMicrosecond);
  const Shares shares = Measure(world, std::array{&queued}, std::array{&waiting}, 10 * kSecond);
  EXPECT_NEAR(98.0, shares.each[0], 0.1);
  EXPECT_NEAR(2.0, shares.each[1], 0.1);
}

TEST(Share, ShortSlicesOfManyCostSwitches) {
  World world;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Client*> all;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    all.push_back(clients.emplace_back(std::make_unique<Client>(world, i)).get());
    world.gpu.SetTimeslice(i, 1025);
    all.back()->Saturate(kMillisecond);
  }
  const Shares shares = Measure(world, all, {}, 10 * kSecond);
  EXPECT_NEAR(96.2, shares.busy, 0.1);
  for (const double share : shares.each) {
    EXPECT_NEAR(12.5, share, 0.05);
  }
}

TEST(Share, SlicesAreWhatTheHardwareCanHold) {
  World world;
  const Client client(world, 1);
  const auto slice = [&](std::uint64_t microseconds) {
    world.gpu.SetTimeslice(1, microseconds);
    return client.Accounting().slice_ns;
  };
  EXPECT_EQ(1024U * 1024U, client.Accounting().slice_ns);
  EXPECT_EQ(1024U, slice(0));
  EXPECT_EQ(1024U, slice(1));
  EXPECT_EQ(97U * 1024U, slice(100));
  EXPECT_EQ((9765U >> 6U << 6U) * 1024U, slice(10'000));
  EXPECT_EQ((Duration{255} << 15U) * 1024U, slice(~std::uint64_t{0}));
}

TEST(Share, ASliceIsSetAtOnce) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  world.gpu.SetTimeslice(1, 1'000'000);
  a.Saturate(10 * kSecond);
  b.Saturate(10 * kSecond);
  world.Run(10 * kMillisecond);
  EXPECT_TRUE(a.Accounting().running);
  world.gpu.SetTimeslice(1, 1000);
  world.Run(41 * kMicrosecond);
  EXPECT_EQ(0U, b.Accounting().gpu_time_ns / kMillisecond);
  EXPECT_TRUE(b.Accounting().running);
  EXPECT_FALSE(a.Accounting().running);
}

TEST(Share, AGroupThatIsAloneNeverSwitches) {
  World world;
  Client a(world, 1);
  world.gpu.SetTimeslice(1, 1);
  a.Submit(a.Launch(10 * kSecond));
  EXPECT_TRUE(world.gpu.Advance(9 * kSecond, 100));  // not an event for each microsecond
  EXPECT_EQ(1U, a.Accounting().switches);
  EXPECT_EQ(0U, world.gpu.Runlist(kGraphics).idle_ns);
  EXPECT_GT(*world.gpu.NextEvent(), 10 * kSecond);
  Client b(world, 2);
  b.Submit(b.Launch(kMillisecond));
  world.Run(45 * kMicrosecond);
  EXPECT_TRUE(b.Accounting().running);
}

TEST(Share, ThoseOfOneGroupShareItsSlice) {
  World world;
  Client a(world, 1);
  Client more(world, a, 3);
  Client b(world, 2);
  a.Saturate(100 * kMicrosecond);
  more.Saturate(100 * kMicrosecond);
  b.Saturate(100 * kMicrosecond);
  const Shares shares = Measure(world, std::array{&a, &more, &b}, {}, kSecond);
  EXPECT_NEAR(50.0, shares.each[0], 0.2);  // the group's, of which both are
  EXPECT_NEAR(50.0, shares.each[2], 0.2);
  const auto kernels = static_cast<double>(a.ChannelAccountingNow().kernels);
  EXPECT_NEAR(kernels, static_cast<double>(more.ChannelAccountingNow().kernels), 2.0);
}

TEST(Share, RunlistsDoNotKnowEachOther) {
  World world;
  Client a(world, 1, kGraphics);
  Client b(world, 2, kCopyEngine);
  a.Saturate(kMillisecond);
  b.Saturate(kMillisecond);
  RunAll(world, std::array{&a, &b}, {}, kSecond);
  EXPECT_EQ(1U, a.Accounting().switches);
  EXPECT_EQ(1U, b.Accounting().switches);
  EXPECT_EQ(kSecond - 40 * kMicrosecond, a.Accounting().gpu_time_ns);
  EXPECT_EQ(kSecond - 40 * kMicrosecond, b.Accounting().gpu_time_ns);
}

// --- Priority.

// How long the starts of a group waited, the switch to it not counted.
struct Waits {
  std::size_t starts = 0;
  Duration longest = 0;
};
Waits WaitsOf(const World& world, GroupKey group, std::uint64_t from) {
  Waits waits;
  for (const Start& start : world.gpu.Starts(from)) {
    if (start.group == group) {
      const Duration wait = start.start_ns - start.visible_ns;
      waits.longest =
          std::max(waits.longest, wait - (start.switched ? Costs{}.context_switch_ns : 0));
      ++waits.starts;
    }
  }
  return waits;
}

TEST(Priority, HighWaitsForOneSliceOfOthersHoweverLongTheirKernels) {
  for (const std::uint64_t count : {1U, 4U}) {
    for (const Duration kernel : {kMillisecond, 10 * kMillisecond, 100 * kMillisecond}) {
      SCOPED_TRACE(kernel);
      World world;
      std::vector<std::unique_ptr<Client>> clients;
      std::vector<Client*> neighbours;
      for (std::uint64_t i = 1; i <= count; ++i) {
        neighbours.push_back(clients.emplace_back(std::make_unique<Client>(world, i)).get());
        world.gpu.SetTimeslice(i, 900);
        neighbours.back()->Saturate(kernel);
      }
      Client online(world, 9);
      online.Alternate(200 * kMicrosecond);
      RunAll(world, neighbours, std::array{&online}, 200 * kMillisecond);
      const Waits without = WaitsOf(world, 9, 0);
      EXPECT_GT(without.longest, (count * 900 - 20) * kMicrosecond);
      world.gpu.SetInterleave(9, Interleave::kHigh);
      RunAll(world, neighbours, std::array{&online}, 10 * kMillisecond);
      const std::uint64_t from = world.gpu.Starts(0).back().number + 1;
      RunAll(world, neighbours, std::array{&online}, kSecond);
      const Waits with = WaitsOf(world, 9, from);
      EXPECT_GT(with.starts, 500U);
      EXPECT_LE(with.longest, (900 + 40) * kMicrosecond);  // with the neighbour's own switch
      EXPECT_GT(with.longest, 850 * kMicrosecond);
    }
  }
}

TEST(Priority, AStartSaysWhenItsWorkCameAndWhenItRan) {
  World world;
  Client a(world, 1);
  world.Run(500);
  a.Submit(a.Launch(kMillisecond));
  world.Run(2 * kMillisecond);
  a.Submit(a.Launch(kMillisecond));
  world.Run(2 * kMillisecond);
  const std::vector<Start> starts = world.gpu.Starts(0);
  ASSERT_EQ(2U, starts.size());
  EXPECT_EQ(500U, starts[0].visible_ns);
  EXPECT_EQ(500U + 40'000U, starts[0].start_ns);
  EXPECT_TRUE(starts[0].switched);
  EXPECT_EQ(500U + 2 * kMillisecond, starts[1].visible_ns);
  EXPECT_EQ(starts[1].visible_ns, starts[1].start_ns);
  EXPECT_FALSE(starts[1].switched);
  EXPECT_EQ(1U, world.gpu.Starts(1).size());
}

// A group that had just done its last, and whose slice a submission ended, starts anew.
TEST(Priority, ASubmissionDoesNotHideAStart) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  static_cast<void>(world.gpu.Schedule(2, false));
  b.Submit(b.Launch(kMillisecond));
  a.Submit({0});
  world.Run(40 * kMicrosecond + 105);
  EXPECT_FALSE(a.Accounting().has_work);
  EXPECT_TRUE(a.Accounting().running);
  static_cast<void>(world.gpu.Schedule(2, true));
  world.Run(2 * kMillisecond);
  a.Submit({0});
  world.Run(kMillisecond);
  std::vector<GroupKey> groups;
  for (const Start& start : world.gpu.Starts(0)) {
    groups.push_back(start.group);
  }
  EXPECT_EQ((std::vector<GroupKey>{1, 2, 1}), groups);
}

TEST(Priority, ALogOfStartsHasAnEnd) {
  Costs costs;
  costs.kept_starts = 3;
  World world(costs);
  Client a(world, 1);
  a.Alternate(kMillisecond);
  RunAll(world, {}, std::array{&a}, 10 * kMillisecond);
  const std::vector<Start> starts = world.gpu.Starts(0);
  ASSERT_EQ(3U, starts.size());
  EXPECT_EQ(starts[0].number + 2, starts[2].number);
  EXPECT_GT(starts[0].number, 0U);
}

// --- Orders.

TEST(Orders, ADisabledChannelIsOffTheEngineAndKeepsItsWork) {
  World world;
  Client a(world, 1);
  a.Submit(a.Launch(10 * kMillisecond));
  world.Run(5 * kMillisecond);
  const std::array<ChannelKey, 1> which{1};
  EXPECT_EQ(world.gpu.Now() + 300 * kMicrosecond, world.gpu.Disable(which, true, false));
  const Duration ran = a.Accounting().gpu_time_ns;
  world.Run(kSecond);
  EXPECT_EQ(ran, a.Accounting().gpu_time_ns);
  EXPECT_EQ(0U, a.Accounting().kernels);
  EXPECT_EQ(std::nullopt, world.gpu.NextEvent());
  EXPECT_EQ(world.gpu.Now(), world.gpu.Disable(which, false, false));
  world.Run(6 * kMillisecond);
  EXPECT_EQ(1U, a.Accounting().kernels);
  EXPECT_NEAR(10.0 * kMillisecond, static_cast<double>(a.Accounting().gpu_time_ns), 1000.0);
}

TEST(Orders, ADisabledChannelLetsOthersOfItsGroupRun) {
  World world;
  Client a(world, 1);
  Client beside(world, a, 2);
  a.Submit(a.Launch(10 * kMillisecond));
  world.Run(kMillisecond);
  static_cast<void>(world.gpu.Disable(std::array<ChannelKey, 1>{1}, true, false));
  beside.Submit(beside.Launch(kMillisecond));
  world.Run(3 * kMillisecond);
  EXPECT_EQ(1U, beside.ChannelAccountingNow().kernels);
  EXPECT_EQ(0U, a.ChannelAccountingNow().kernels);
}

TEST(Orders, OnlySchedulingTakesNobodyOff) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  a.Saturate(10 * kMillisecond);
  world.Run(100 * kMicrosecond);
  EXPECT_EQ(world.gpu.Now(), world.gpu.Disable(std::array<ChannelKey, 1>{1}, true, true));
  EXPECT_TRUE(a.Accounting().running);
  b.Saturate(10 * kMillisecond);
  RunAll(world, std::array{&b}, {}, 100 * kMillisecond);
  EXPECT_LT(a.Accounting().gpu_time_ns, 2 * kMillisecond);
}

TEST(Orders, PreemptionTakesAGroupOffOnce) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  world.gpu.SetTimeslice(1, 1'000'000);
  a.Saturate(kSecond);
  b.Submit(b.Launch(kMillisecond));
  world.Run(10 * kMillisecond);
  EXPECT_EQ(0U, b.Accounting().kernels);
  EXPECT_EQ(world.gpu.Now() + 300 * kMicrosecond, world.gpu.Preempt(1));
  world.Run(2 * kMillisecond);
  EXPECT_EQ(1U, b.Accounting().kernels);
  EXPECT_TRUE(a.Accounting().running);
  EXPECT_EQ(world.gpu.Now(), world.gpu.Preempt(2));
}

TEST(Orders, WhatCannotBePreemptedIsWaitedFor) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  a.Submit(a.Launch(20 * kMillisecond, TimedKernel::kNotPreemptible));
  world.Run(kMillisecond);
  b.Submit(b.Launch(kMillisecond));
  world.Run(10 * kMillisecond);
  EXPECT_EQ(0U, b.Accounting().kernels);
  const Time off = world.gpu.Disable(std::array<ChannelKey, 1>{1}, true, false);
  EXPECT_GT(off, 20 * kMillisecond);
  EXPECT_LT(off, 21 * kMillisecond);
  EXPECT_TRUE(a.Accounting().running);
  EXPECT_EQ(off, world.gpu.Disable(std::array<ChannelKey, 1>{1}, true, false));  // and again
  EXPECT_EQ(off, world.gpu.Schedule(1, false));
  world.Run(kMillisecond);
  EXPECT_TRUE(a.Accounting().running);
  world.Run(off - world.gpu.Now());
  EXPECT_FALSE(a.Accounting().running);
  EXPECT_EQ(1U, a.Accounting().kernels);
  world.Run(2 * kMillisecond);
  EXPECT_EQ(1U, b.Accounting().kernels);
  EXPECT_TRUE(world.events.faults.empty());
}

TEST(Orders, WhatLeavesTheRunlistStopsAndGoesOnWhenItIsBack) {
  World world;
  Client a(world, 1);
  a.Submit(a.Launch(10 * kMillisecond));
  world.Run(kMillisecond);
  EXPECT_EQ(world.gpu.Now() + 300 * kMicrosecond, world.gpu.Schedule(1, false));
  EXPECT_FALSE(a.Accounting().scheduled);
  world.Run(kSecond);
  EXPECT_LT(a.Accounting().gpu_time_ns, kMillisecond);
  static_cast<void>(world.gpu.Schedule(1, true));
  world.Run(20 * kMillisecond);
  EXPECT_EQ(1U, a.Accounting().kernels);
}

TEST(Orders, AStoppedChannelNeverRunsAgain) {
  World world;
  Client a(world, 1);
  a.Submit(a.Launch(10 * kMillisecond));
  world.Run(kMillisecond);
  EXPECT_EQ(world.gpu.Now() + 300 * kMicrosecond, world.gpu.Stop(1));
  a.Submit(a.Launch(10 * kMillisecond));
  static_cast<void>(world.gpu.Schedule(1, true));
  world.Run(kSecond);
  EXPECT_EQ(0U, a.Accounting().kernels);
  EXPECT_TRUE(world.events.faults.empty());
}

// The shares of three groups with slices of 100 ms, while somebody makes and removes groups all
// the time, far more often than slices end.
std::vector<double> SharesUnderSubmissions(const Costs& costs) {
  World world(costs);
  std::array<Client, 3> clients{Client(world, 1), Client(world, 2), Client(world, 3)};
  for (Client& client : clients) {
    world.gpu.SetTimeslice(client.Key(), 100'000);
    client.Saturate(kSecond);
  }
  for (std::uint64_t i = 0; i < 900; ++i) {
    world.gpu.AddGroup(1000 + i, kGraphics);
    world.gpu.AddChannel(1000 + i, 1000 + i, ChannelPlace{});
    static_cast<void>(world.gpu.Schedule(1000 + i, true));
    world.Run(kMillisecond);
    world.gpu.RemoveGroup(1000 + i);
    world.Run(kMillisecond);
  }
  std::vector<double> shares;
  for (const Client& client : clients) {
    shares.push_back(Percent(client.Accounting().gpu_time_ns, world.gpu.Now()));
  }
  return shares;
}

TEST(Orders, ASubmissionExpiresTheSliceAndKeepsTheRound) {
  for (const double share : SharesUnderSubmissions({})) {
    EXPECT_NEAR(100.0 / 3, share, 2.0);
  }
}

TEST(Orders, ASubmissionThatRestartsTheRoundFavoursItsFront) {
  Costs costs;
  costs.submission_restarts = true;
  const std::vector<double> shares = SharesUnderSubmissions(costs);
  EXPECT_GT(shares[0], 90.0);
  EXPECT_LT(shares[2], 1.0);
}

TEST(Orders, GroupsAndChannelsGoWhileTheyRun) {
  World world;
  Client a(world, 1);
  Client b(world, 2);
  a.Submit(a.Launch(kSecond, TimedKernel::kNotPreemptible));
  world.Run(kMillisecond);
  b.Submit(b.Launch(kMillisecond));
  world.Run(5 * kMillisecond);
  world.gpu.RemoveChannel(1);
  world.Run(2 * kMillisecond);
  EXPECT_EQ(1U, b.Accounting().kernels);
  b.Submit(b.Launch(kSecond));
  world.Run(kMillisecond);
  world.gpu.RemoveGroup(2);
  world.gpu.RemoveGroup(1);
  world.Run(kSecond);
  EXPECT_EQ(std::nullopt, world.gpu.Group(2));
  EXPECT_EQ(std::nullopt, world.gpu.Channel(2));
  EXPECT_EQ(std::nullopt, world.gpu.NextEvent());
}

}  // namespace
}  // namespace cgpu::sim::engine::testing
