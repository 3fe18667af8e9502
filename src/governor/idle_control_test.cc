#include "governor/idle_control.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace cgpu::governor {
namespace {

constexpr double kIdleSwitch = kSwitchUs;

// A container of the model: what it runs each time that its turn comes, at most its time slice.
struct Runner {
  std::string id;
  double slice_us = 0;
  double turn_us = 0;  // 0: it has no work
};

// A GPU that goes round containers and the idle group, each of which costs a switch.
class Rounds {
 public:
  // Runs so long with the control's time slice, and tells the control.
  void Run(IdleControl& control, const std::vector<Runner>& loads, double seconds) {
    double round_us = control.slice_us() == 0 ? 0 : control.slice_us() + kIdleSwitch;
    std::size_t active = 0;
    for (const Runner& load : loads) {
      round_us += load.turn_us == 0
                      ? 0
                      : std::min<double>(
                            load.turn_us,
                            control.SliceOf(load.id, static_cast<std::uint32_t>(load.slice_us))) +
                            kIdleSwitch;
      active += load.turn_us == 0 ? 0 : 1;
    }
    IdleControl::Seen seen;
    seen.seconds = seconds;
    time_ += seconds;
    for (const Runner& load : loads) {
      const double used =
          load.turn_us == 0
              ? 0
              : std::min<double>(
                    load.turn_us,
                    control.SliceOf(load.id, static_cast<std::uint32_t>(load.slice_us))) /
                    round_us;
      seen.used[load.id] = {used, load.turn_us == 0 ? 0 : 1e6 / round_us};
      used_[load.id] += used * seconds;
    }
    if (active == 0 || (active == 1 && control.slice_us() == 0)) {
      control.Still();  // there are no switches to be seen
      return;
    }
    seen.idle = {control.slice_us() / round_us, control.slice_us() == 0 ? 0 : 1e6 / round_us};
    control.Step(seen);
  }
  [[nodiscard]] double Share(const std::string& id) { return used_[id] / time_; }
  void Forget() {
    used_.clear();
    time_ = 0;
  }

 private:
  std::map<std::string, double> used_;
  double time_ = 0;
};

TEST(IdleControl, HoldsOneContainerToItsCap) {
  for (const double cap : {0.02, 0.1, 0.3, 0.5, 0.99}) {
    SCOPED_TRACE(cap);
    IdleControl control;
    Rounds rounds;
    const Runner load{"a", 1500 + 10'000 * cap, 1e9};
    control.SetPlan({{"a", cap, static_cast<std::uint32_t>(load.slice_us)}}, false);
    for (int i = 0; i < 50; ++i) {
      rounds.Run(control, {load}, 0.2);
    }
    EXPECT_LE(rounds.Share("a"), cap + 0.001);
    EXPECT_GE(rounds.Share("a"), cap > 0.9 ? 0.8 : cap - 0.01);
  }
}

TEST(IdleControl, ShortensRoundsForOneThatWaitsForItsKernels) {
  IdleControl control;
  Rounds rounds;
  control.SetPlan({{"a", 0.3, 3600}}, false);
  for (int i = 0; i < 10; ++i) {
    rounds.Run(control, {{"a", 3600, 1000}}, 0.2);
  }
  rounds.Forget();
  for (int i = 0; i < 10; ++i) {
    rounds.Run(control, {{"a", 3600, 1000}}, 0.2);
  }
  EXPECT_NEAR(rounds.Share("a"), 0.3, 0.01);
}

// Work that begins after such a time has much for a moment, and pays for it.
TEST(IdleControl, ADebtIsPaid) {
  IdleControl control;
  Rounds rounds;
  control.SetPlan({{"a", 0.1, 1500}}, false);
  for (int cycle = 0; cycle < 20; ++cycle) {
    for (int i = 0; i < 5; ++i) {
      rounds.Run(control, {{"a", 1500, 50}}, 0.1);
    }
    for (int i = 0; i < 2; ++i) {
      rounds.Run(control, {{"a", 1500, 1e9}}, 0.1);
    }
  }
  EXPECT_LE(rounds.Share("a"), 0.105);
}

// A neighbour that falls idle and comes back, again and again, does not give it more, and loses
// nothing.
TEST(IdleControl, ANeighbourThatComesAndGoesGivesNothing) {
  IdleControl control;
  Rounds rounds;
  control.SetPlan({{"a", 0.3, 5400}, {"b", 0.5, 9000}}, false);
  for (int i = 0; i < 200; ++i) {
    rounds.Run(control, {{"a", 5400, 1e9}, {"b", 9000, i % 4 < 2 ? 1e9 : 0}}, 0.1);
  }
  EXPECT_LE(rounds.Share("a"), 0.31);
  EXPECT_GE(rounds.Share("a"), 0.25);
  EXPECT_GE(rounds.Share("b"), 0.2) << "half of the time it has its half";
}

// Its kernels cannot be preempted.
TEST(IdleControl, OneThatOverrunsItsTimeSliceDoesNotStarveTheOthers) {
  IdleControl control;
  control.SetPlan({{"a", 0.1, 1800}, {"b", 0.8, 14400}}, false);
  for (int i = 0; i < 100; ++i) {
    const double round_us = control.slice_us() + 12'000 + 14'400 + 3 * kIdleSwitch;
    control.Step(
        {0.3,
         {{"a", {12'000 / round_us, 1e6 / round_us}}, {"b", {14'400 / round_us, 1e6 / round_us}}},
         {control.slice_us() / round_us, 1e6 / round_us}});
  }
  EXPECT_GE(14'400 / (control.slice_us() + 12'000 + 14'400 + 3 * kIdleSwitch), 0.45);
}

TEST(IdleControl, APlanThatIsTheSameChangesNothing) {
  IdleControl control;
  Rounds rounds;
  const std::vector<IdleControl::Member> members{{"a", 0.5, 6000}, {"b", 0.5, 6000}};
  control.SetPlan(members, false);
  for (int i = 0; i < 50; ++i) {
    rounds.Run(control, {{"a", 6000, 1e9}, {"b", 6000, 1e9}}, 0.1);
  }
  ASSERT_EQ(control.slice_us(), 0U);
  control.SetPlan(members, false);
  EXPECT_EQ(control.slice_us(), 0U);
}

TEST(IdleControl, WantsNothingOfAFullGpuAndTakesWhatBecomesFree) {
  IdleControl control;
  Rounds rounds;
  control.SetPlan({{"a", 0.5, 6000}, {"b", 0.5, 6000}}, false);
  const Runner a{"a", 6000, 1e9};
  const Runner b{"b", 6000, 1e9};
  for (int i = 0; i < 50; ++i) {
    rounds.Run(control, {a, b}, 0.1);
  }
  EXPECT_EQ(control.slice_us(), 0U);
  rounds.Forget();
  for (int i = 0; i < 100; ++i) {
    rounds.Run(control, {a, {"b", 6000, 0}}, 0.1);
  }
  EXPECT_NEAR(rounds.Share("a"), 0.5, 0.015);
}

TEST(IdleControl, StaysShortBesideHighPriority) {
  IdleControl control;
  control.SetPlan({{"a", 0.1, 150}}, true);
  EXPECT_LE(control.slice_us(), kMostIdleBesideHighUs);
  IdleControl::Seen seen;
  seen.seconds = 1;
  seen.used = {{"a", {0.5, 500}}};
  seen.idle = {0.3, 500};
  control.Step(seen);
  EXPECT_LE(control.slice_us(), kMostIdleBesideHighUs);
  EXPECT_GT(control.DebtOf("a"), 0);
}

TEST(IdleControl, WithoutMembersItWantsNothing) {
  IdleControl control;
  EXPECT_EQ(control.slice_us(), 0U);
  control.SetPlan({{"a", 0.1, 150}}, false);
  EXPECT_NE(control.slice_us(), 0U);
  control.SetPlan({}, false);
  EXPECT_EQ(control.slice_us(), 0U);
  control.Still();
  EXPECT_EQ(control.slice_us(), 0U);
}

}  // namespace
}  // namespace cgpu::governor
