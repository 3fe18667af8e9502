// Restarts of the GPU's list of groups, where time slices need them.
#include <gtest/gtest.h>

#include "shim/testing_scheduler.h"

namespace cgpu::shim {
namespace {

governor::Order Restarting(std::uint32_t slice_us) {
  governor::Order order;
  order.slice_us = slice_us;
  order.restart = true;
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

}  // namespace
}  // namespace cgpu::shim
