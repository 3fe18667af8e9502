#include "shim/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "shim/testing_scheduler.h"

namespace cgpu::shim {
namespace {

TEST(Scheduler, DividesASliceAmongTheGroups) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_EQ(f.desk.Slices(), (std::map<ledger::Handle, std::uint64_t>{{10, 6'000}}));
  f.desk.Add(20, 21);
  f.desk.Add(20, 22);
  f.desk.Add(30, 31, 9);  // a copy engine's
  EXPECT_TRUE(Schedule(f, 20));
  EXPECT_EQ(f.desk.Slices(), (std::map<ledger::Handle, std::uint64_t>{{10, 2'925}, {20, 2'925}}))
      << "each pays for its switch";
  f.desk.Remove(10);
  EXPECT_TRUE(Schedule(f, 20));
  EXPECT_EQ(f.desk.Slices().at(20), 6'000);
  f.scheduler.SetOrder(0, {});
  EXPECT_EQ(f.desk.Slices().at(20), kStandardUs) << "as the driver pleases";
}

TEST(Scheduler, TheGroupsThatAreLeftHaveTheWholeSlice) {
  Fixture& f = Make();
  f.scheduler.SetOrder(0, {6'000, {}, false});
  for (const ledger::Handle group : {10U, 20U, 30U}) {
    f.desk.Add(group, group + 1);
    EXPECT_TRUE(Schedule(f, group));
  }
  EXPECT_EQ(f.desk.Slices().at(10), 1'900);
  f.desk.Remove(20);
  f.scheduler.AfterFree();
  EXPECT_EQ(f.desk.Slices().at(10), 2'925);
  EXPECT_EQ(f.desk.Slices().at(30), 2'925);
  f.desk.Remove(30);
  f.scheduler.AfterFree();
  EXPECT_EQ(f.desk.Slices().at(10), 6'000);
}

TEST(Scheduler, OneGroupTooManyIsNotScheduled) {
  Fixture& f = Make();
  constexpr std::uint64_t kSlice = 1'100;  // and a switch: 1,250 us for turns and switches of 150
  f.scheduler.SetOrder(0, {kSlice, {}, false});
  for (ledger::Handle group = 1; group <= 4; ++group) {
    f.desk.Add(group, 100 + group);
    EXPECT_TRUE(Schedule(f, group));
  }
  EXPECT_EQ(f.desk.Slices().at(1), 162);
  f.desk.Add(5, 105);
  EXPECT_FALSE(Schedule(f, 5));
  EXPECT_TRUE(f.desk.Off().empty()) << "those that run are left alone";
  f.desk.Remove(2);
  EXPECT_TRUE(Schedule(f, 5));
  EXPECT_EQ(f.desk.Slices().at(5), 162);
}

TEST(Scheduler, GroupsTooManyTakeTurns) {
  Fixture& f = Make();
  governor::Order order;
  order.slice_us = 1'100;
  order.may_rest = true;
  f.scheduler.SetOrder(0, order);
  for (ledger::Handle group = 1; group <= 6; ++group) {
    f.desk.Add(group, 100 + group);
    EXPECT_TRUE(Schedule(f, group));
  }
  EXPECT_EQ(f.desk.Slices().at(6), 162) << "it has it before its turn comes";
  // Each is off at some time and on at another, and two always are off.
  std::set<ledger::Handle> rested;
  for (int turn = 0; turn < 1000 && rested.size() < 6; ++turn) {
    ASSERT_TRUE(f.desk.WaitForSwitches(1));
    const std::set<ledger::Handle> off = f.desk.Off();
    EXPECT_GE(off.size(), 2);
    rested.insert(off.begin(), off.end());
  }
  EXPECT_EQ(rested.size(), 6);
  f.scheduler.Pause();
  EXPECT_TRUE(f.desk.Off().empty());
  f.scheduler.Resume();
  EXPECT_EQ(f.desk.Off().size(), 2);
  order.slice_us = 6'000;
  f.scheduler.SetOrder(0, order);
  EXPECT_TRUE(f.desk.Off().empty());
}

TEST(Scheduler, GroupsTooManyHaveWindowsInTurn) {
  Fixture& f = Make();
  governor::Order order;
  order.slice_us = 1'100;
  order.may_rest = true;
  order.duty = {100'000, 1'000, 50'000};  // two turns
  for (ledger::Handle group = 1; group <= 8; ++group) {
    AddScheduled(f, group, 100 + group);
  }
  f.scheduler.SetOrder(0, order);
  for (int switches = 0; switches < 100 && f.desk.PutOn().size() < 8; ++switches) {
    ASSERT_TRUE(f.desk.WaitForSwitches(1));
  }
  EXPECT_EQ(f.desk.PutOn().size(), 8);
}

TEST(Scheduler, WhoeverSchedulesAllTheTimeIsLetThroughToTheEnd) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  std::atomic<int> through = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1'000; ++j) {
        EXPECT_TRUE(f.scheduler.BeforeSchedule(0, 10));
        ++through;
      }
    });
  }
  while (through < 128) {
    std::this_thread::yield();
  }
  f.scheduler.LetThrough();  // the rest would take six minutes
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(Scheduler, WhoeverSchedulesAllTheTimeWaits) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.desk.Add(30, 31, 9);  // a copy engine's
  f.scheduler.SetOrder(0, {6'000, {}, false});
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - begin; };
  for (int i = 0; i < 130; ++i) {
    EXPECT_TRUE(f.scheduler.BeforeSchedule(0, i % 2 == 0 ? 10 : 11));
  }
  EXPECT_GE(passed(), std::chrono::milliseconds(100)) << "two more than may go at once";
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(f.scheduler.BeforeSchedule(0, 30));
  }
}

TEST(Scheduler, AnUnorderedGpuIsLeftAlone) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  EXPECT_TRUE(f.desk.Slices().empty());
  EXPECT_TRUE(f.desk.Off().empty());
}

TEST(Scheduler, SwitchesByTheClockAndPutsEverythingBack) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  EXPECT_TRUE(f.scheduler.BeforeSchedule(0, 30));  // an empty group
  f.desk.Add(30, 31, 9);                           // that turns out to be a copy engine's
  f.scheduler.AfterSchedule(0, 30, Scheduler::Scheduled::kOn);
  f.scheduler.SetOrder(0, {6'000, {2'000, 1'000, 0}, false});
  EXPECT_TRUE(f.desk.WaitForSwitches(4));
  f.scheduler.Pause();
  EXPECT_TRUE(f.desk.Off().empty());
  f.scheduler.Resume();
  EXPECT_TRUE(f.desk.WaitForSwitches(2));
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_TRUE(f.desk.Off().empty());
}

TEST(Scheduler, TheTimeOffTheGpuIsCountedWhileThereAreChannels) {
  Fixture& f = Make();
  const auto begin = std::chrono::steady_clock::now();
  const auto grows = [&] {
    const std::uint64_t before = f.scheduler.Throttled(0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < until) {
    }
    return f.scheduler.Throttled(0) - before >= 1'000;
  };
  const governor::Order never{6'000, {1'000'000, 1, 999'999}, false};  // nearly
  f.scheduler.SetOrder(0, never);
  EXPECT_FALSE(grows()) << "there is no channel";
  f.desk.Add(10, 11);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_FALSE(grows()) << "it may always run";
  f.scheduler.SetOrder(0, never);
  EXPECT_TRUE(grows());
  EXPECT_LE(std::chrono::microseconds(f.scheduler.Throttled(0)),
            std::chrono::steady_clock::now() - begin);
  f.scheduler.Pause();
  EXPECT_FALSE(grows());
  Fixture& successor = Make();
  successor.scheduler.Load(f.scheduler.Save());
  EXPECT_EQ(successor.scheduler.Throttled(0), f.scheduler.Throttled(0));
  f.scheduler.Resume();
  EXPECT_TRUE(grows());
  f.desk.Remove(10);
  f.scheduler.AfterFree();
  EXPECT_FALSE(grows());
}

TEST(Scheduler, NothingIsScheduledOutOfTime) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.scheduler.SetOrder(0, {6'000, {20'000, 4'000, 0}, false});
  for (ledger::Handle i = 0; i < 8; ++i) {
    f.desk.Add(10, 12 + i);  // a group that is scheduled once more, and one that is new
    EXPECT_TRUE(Schedule(f, 10));
    AddScheduled(f, 30 + i, 50 + i);
  }
}

TEST(Scheduler, TheFirstGroupWaitsForAWindow) {
  for (int i = 0; i < 20; ++i) {
    Fixture& f = Make();
    f.scheduler.SetOrder(0, {6'000, {5'000, 1'000, 0}, false});
    AddScheduled(f, 10, 11);
  }
}

// While something is being scheduled, nothing is taken off. Who comes then waits all the same.
TEST(Scheduler, WhoeverWaitsForAWindowGoesOnWithoutTheOrder) {
  for (int i = 0; i < 20; ++i) {
    Fixture& f = Make();
    AddScheduled(f, 10, 11);
    EXPECT_TRUE(f.scheduler.BeforeSchedule(0, 10));
    f.scheduler.SetOrder(0, {6'000, {1'000'000, 1, 999'999}, false});  // never
    EXPECT_TRUE(f.desk.Off().empty());
    std::atomic<bool> comes = false;
    std::thread waiting([&] {
      comes = true;
      EXPECT_TRUE(f.scheduler.BeforeSchedule(0, 10));
    });
    while (!comes) {
      std::this_thread::yield();
    }
    f.scheduler.SetOrder(0, {6'000, {}, false});
    waiting.join();
  }
}

TEST(Scheduler, WhoeverWaitsForAWindowIsLetThroughAtTheEnd) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.scheduler.SetOrder(0, {6'000, {1'000'000, 1, 999'999}, false});  // never
  f.desk.Add(10, 12);
  std::atomic<bool> through = false;
  std::thread waiting([&] {
    EXPECT_TRUE(Schedule(f, 10));
    through = true;
  });
  ASSERT_TRUE(f.desk.Off().contains(11) || f.desk.WaitForSwitches(1));
  EXPECT_FALSE(through);
  f.scheduler.LetThrough();
  waiting.join();
}

TEST(Scheduler, WhatIsNotScheduledIsNotTakenOff) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.desk.Add(10, 12);
  f.desk.Add(20, 21);
  EXPECT_TRUE(f.scheduler.BeforeSchedule(0, 20));
  f.scheduler.AfterSchedule(0, 20, Scheduler::Scheduled::kFailed);
  f.scheduler.SetOrder(0, {6'000, {2'000, 1'000, 0}, false});
  EXPECT_TRUE(f.desk.WaitForSwitches(4));
  EXPECT_EQ(f.desk.PutOn(), std::set<ledger::Handle>{11});
}

TEST(Scheduler, ASuccessorKnowsWhatIsScheduled) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.desk.Add(10, 12);
  f.scheduler.Pause();
  Scheduler& next = Successor(f, f.scheduler.Save());
  next.SetOrder(0, {6'000, {2'000, 1'000, 0}, false});
  EXPECT_TRUE(f.desk.WaitForSwitches(4));
  EXPECT_EQ(f.desk.PutOn(), std::set<ledger::Handle>{11});
  next.Pause();
  // An earlier version does not tell. What there is then was scheduled, as far as anybody knows.
  f.desk.Schedule(10);
  (void)Successor(f, {{{6'000, {2'000, 1'000, 0}, false}, kStandardUs, 0, false, {}}});
  EXPECT_TRUE(f.desk.WaitForSwitches(4));
  EXPECT_EQ(f.desk.PutOn(), (std::set<ledger::Handle>{11, 12}));
}

TEST(Scheduler, WhatCannotBeGivenASliceDoesNotRun) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.desk.Add(0, 21);  // a lone channel
  EXPECT_TRUE(Schedule(f, 0)) << "without an order the driver shares as it does";
  EXPECT_TRUE(f.desk.Off().empty());
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_EQ(f.desk.Off(), (std::set<ledger::Handle>{21}));
  EXPECT_FALSE(Schedule(f, 0));
  f.desk.Lock(10);  // as by RM_SHARE
  f.scheduler.SetOrder(0, {3'000, {}, false});
  EXPECT_EQ(f.desk.Off(), (std::set<ledger::Handle>{11, 21}));
  f.scheduler.SetOrder(0, {});
  EXPECT_TRUE(f.desk.Off().empty());
}

TEST(Scheduler, WhatTheDriverRefusedOnceRunsAgain) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.desk.Lock(10);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_EQ(f.desk.Off(), (std::set<ledger::Handle>{11}));
  f.desk.Unlock(10);
  EXPECT_TRUE(f.desk.WaitUntilNoneIsOff()) << "it is off for ever";
  EXPECT_EQ(f.desk.Slices().at(10), 6'000);
}

TEST(Scheduler, HighPriorityGoesBetweenTheOthersAndIsPutBack) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.desk.Add(10, 12);
  const governor::Order high{8'000, {}, true, false, 4};
  f.scheduler.SetOrder(0, high);
  EXPECT_EQ(f.desk.Raised(), (std::set<ledger::Handle>{10}));
  EXPECT_EQ(f.desk.Slices().at(10), 2'000) << "a turn of four";
  f.desk.Add(20, 21);
  f.desk.Add(30, 31, 9);  // a copy engine's
  EXPECT_TRUE(Schedule(f, 20));
  EXPECT_EQ(f.desk.Raised(), (std::set<ledger::Handle>{10, 20}));
  EXPECT_EQ(f.desk.Slices(), (std::map<ledger::Handle, std::uint64_t>{{10, 981}, {20, 981}}));
  EXPECT_TRUE(f.scheduler.NeedsHelper());
  f.desk.RefuseLevels(Code::kUnavailable);  // the helper is gone
  f.scheduler.SetOrder(0, {3'000, {}, false});
  EXPECT_TRUE(f.scheduler.NeedsHelper()) << "they are to be put back still";
  f.desk.RefuseLevels(std::nullopt);
  EXPECT_TRUE(Schedule(f, 20));
  EXPECT_TRUE(f.desk.Raised().empty());
  EXPECT_FALSE(f.scheduler.NeedsHelper());
  EXPECT_EQ(f.desk.Slices().at(10), 1'425);
}

TEST(Scheduler, ALevelThatCouldNotBeSetIsTriedAgain) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.desk.RefuseLevels(Code::kExhausted);  // the request cannot be sent to the helper
  f.scheduler.SetOrder(0, {8'000, {}, true, false, 4});
  EXPECT_TRUE(f.desk.Raised().empty());
  EXPECT_EQ(f.desk.Slices().at(10), 8'000);
  f.desk.RefuseLevels(std::nullopt);
  EXPECT_TRUE(f.desk.WaitUntilRaised(10));
}

TEST(Scheduler, WhereAGpuKnowsNoLevelsSlicesAreLonger) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.desk.Add(20, 21);
  f.desk.RefuseLevels(Code::kUnsupported);
  f.scheduler.SetOrder(0, {8'000, {}, true, false, 4});
  EXPECT_EQ(f.desk.Slices(), (std::map<ledger::Handle, std::uint64_t>{{10, 3'925}, {20, 3'925}}));
  EXPECT_EQ(f.desk.AskedForLevels(), 1);
  EXPECT_FALSE(f.scheduler.NeedsHelper());
  EXPECT_TRUE(Schedule(f, 20));
  EXPECT_EQ(f.desk.AskedForLevels(), 1) << "it was asked again";
  f.scheduler.SetOrder(0, {6'000'000, {}, true, false, 64});
  EXPECT_EQ(f.desk.Slices().at(10), 1'000'000) << "no turn is longer";
}

TEST(Scheduler, AnOwnerPutsBackNothingThatIsOffByOrder) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  AddScheduled(f, 20, 21);
  f.desk.Add(30, 31, rm::NV2080_ENGINE_TYPE_NULL + 9);  // a copy engine's: no order is for it
  std::vector<std::vector<std::size_t>> asked;
  const auto ask = [&](const std::vector<std::size_t>& places) {
    asked.push_back(places);
    return true;
  };
  f.scheduler.SetOrder(0, {6'000, {1'000'000, 1, 999'999}, false});  // never
  ASSERT_TRUE(f.desk.Off().contains(11) || f.desk.WaitForSwitches(1));
  f.scheduler.SwitchByOwner(0, {{1, 11}, {1, 21}}, true, ask);
  f.scheduler.SwitchByOwner(0, {{1, 99}}, true, ask);  // a duplicate of one of them, perhaps
  EXPECT_TRUE(asked.empty());
  f.scheduler.SwitchByOwner(0, {{1, 11}, {1, 31}}, true, ask);
  EXPECT_EQ(asked, (std::vector<std::vector<std::size_t>>{{1}}));
  f.scheduler.SwitchByOwner(0, {{1, 21}}, false, ask);
  EXPECT_EQ(asked.back(), std::vector<std::size_t>{0}) << "anything may be taken off";
  // An order does not put back either what its owner has taken off.
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_EQ(f.desk.Off(), std::set<ledger::Handle>{21});
  f.scheduler.SwitchByOwner(0, {{1, 21}}, true, ask);
  EXPECT_EQ(asked.size(), 3U);
  f.scheduler.SwitchByOwner(0, {{1, 11}}, false, [](const auto&) { return false; });
  f.scheduler.Pause();
  f.scheduler.Resume();
  EXPECT_FALSE(f.desk.Off().contains(11)) << "the driver had refused it";
}

TEST(Scheduler, WhatIsOffIsNotOffForItsSuccessor) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.desk.Lock(10);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  f.scheduler.Pause();
  EXPECT_TRUE(f.desk.Off().empty());
  f.desk.Unlock(10);
  (void)Successor(f, f.scheduler.Save());
  EXPECT_TRUE(f.desk.Off().empty());
}

TEST(Scheduler, OrdersOutliveIt) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  f.scheduler.Pause();
  Successor(f, f.scheduler.Save()).SetOrder(0, {});
  EXPECT_EQ(f.desk.Slices().at(10), kStandardUs);
}

}  // namespace
}  // namespace cgpu::shim
