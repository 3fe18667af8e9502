// Restarts of the GPU's list of groups, where time slices need them.
#include <gtest/gtest.h>

#include "shim/testing_scheduler.h"

namespace cgpu::shim {
namespace {

governor::Order Restarting(std::uint32_t slice_us) {
  governor::Order order;
  order.slice_us = slice_us;
  order.trigger = governor::Trigger::kRestart;
  return order;
}

TEST(SchedulerRestart, FollowsEachChangeOfTimeSlices) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  AddScheduled(f, 20, 21);
  f.scheduler.SetOrder(0, Restarting(6'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 1) << "one for all groups";
  EXPECT_TRUE(f.scheduler.NeedsHelper());
  f.scheduler.SetOrder(0, Restarting(6'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 0) << "nothing has changed";
  f.scheduler.SetOrder(0, Restarting(3'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 1);
  f.desk.Remove(20);
  f.scheduler.AfterFree();
  EXPECT_EQ(f.desk.Slices().at(10), 3'000);
  EXPECT_EQ(f.desk.TakeRestarts(), 1);
}

TEST(SchedulerRestart, FollowsAScheduleAndNotWhatComesBeforeIt) {
  Fixture& f = Make();
  f.desk.Add(10, 11);
  f.scheduler.SetOrder(0, Restarting(6'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 0) << "nothing is scheduled";
  ASSERT_TRUE(f.scheduler.BeforeSchedule(0, 10));
  EXPECT_EQ(f.desk.TakeRestarts(), 0);
  f.desk.Schedule(10);
  f.scheduler.AfterSchedule(0, 10, Scheduler::Scheduled::kOn);
  EXPECT_EQ(f.desk.TakeRestarts(), 1);
  EXPECT_TRUE(Schedule(f, 10));
  EXPECT_EQ(f.desk.TakeRestarts(), 0) << "it was scheduled before";
}

TEST(SchedulerRestart, IsTriedAgainAtTheNextChange) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.desk.RefuseRestarts(true);
  f.scheduler.SetOrder(0, Restarting(6'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 1);
  f.desk.RefuseRestarts(false);
  f.scheduler.SetOrder(0, Restarting(6'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 1) << "it has a helper now";
  f.scheduler.SetOrder(0, Restarting(6'000));
  EXPECT_EQ(f.desk.TakeRestarts(), 0);
}

TEST(SchedulerRestart, IsNotAskedForWhereTimeSlicesTakeEffectAtOnce) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.scheduler.SetOrder(0, {6'000, {}, false});
  EXPECT_EQ(f.desk.TakeRestarts(), 0);
  EXPECT_FALSE(f.scheduler.NeedsHelper());
}

TEST(SchedulerRestart, GoesOnInASuccessor) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  f.scheduler.SetOrder(0, Restarting(6'000));
  f.scheduler.Pause();
  EXPECT_EQ(f.desk.TakeRestarts(), 1);
  Scheduler& next = Successor(f, f.scheduler.Save());
  EXPECT_TRUE(next.NeedsHelper());
  f.desk.Add(20, 21);
  ASSERT_TRUE(next.BeforeSchedule(0, 20));
  f.desk.Schedule(20);
  next.AfterSchedule(0, 20, Scheduler::Scheduled::kOn);
  EXPECT_GE(f.desk.TakeRestarts(), 1);
}

TEST(SchedulerTrigger, IsPulledForEachGroupThatRuns) {
  for (const auto trigger : {governor::Trigger::kSchedule, governor::Trigger::kPreempt}) {
    Fixture& f = Make();
    AddScheduled(f, 10, 11);
    f.desk.Add(20, 21);
    governor::Order order;
    order.slice_us = 6'000;
    order.trigger = trigger;
    f.scheduler.SetOrder(0, order);
    EXPECT_EQ(f.desk.TakePulled(), (std::set<std::uint64_t>{10})) << "20 is not scheduled";
    EXPECT_FALSE(f.scheduler.NeedsHelper());
    f.scheduler.SetOrder(0, order);
    EXPECT_TRUE(f.desk.TakePulled().empty()) << "nothing has changed";
    ASSERT_TRUE(f.scheduler.BeforeSchedule(0, 20));
    f.desk.Schedule(20);
    f.scheduler.AfterSchedule(0, 20, Scheduler::Scheduled::kOn);
    EXPECT_EQ(f.desk.TakePulled().contains(20), trigger == governor::Trigger::kPreempt)
        << "its first schedule has done it";
  }
}

// Otherwise a container could keep a long time slice from before it had neighbours.
TEST(SchedulerTrigger, IsNotKeptFromAGroupByItsOwner) {
  Fixture& f = Make();
  AddScheduled(f, 10, 11);
  AddScheduled(f, 20, 21);
  f.desk.Add(20, 22);  // is never scheduled
  f.scheduler.SwitchByOwner(0, {{1, 11}}, false, [](const auto&) { return true; });
  governor::Order order;
  order.slice_us = 6'000;
  order.trigger = governor::Trigger::kSchedule;
  f.scheduler.SetOrder(0, order);
  EXPECT_EQ(f.desk.TakePulled(), (std::set<std::uint64_t>{10, 20}));
}

}  // namespace
}  // namespace cgpu::shim
