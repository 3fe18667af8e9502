#include "governor/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "governor/meter.h"

namespace cgpu::governor {
namespace {

constexpr double kSwitchUs = 40;

// The slices after a step.
std::vector<std::uint32_t> Stepped(Feedback& feedback, const std::vector<Feedback::Seen>& seen,
                                   double now_s) {
  feedback.Step(seen, now_s);
  std::vector<std::uint32_t> slices;
  for (const Feedback::Seen& one : seen) {
    slices.push_back(feedback.SliceOf(one.id, one.slice_us));
  }
  return slices;
}

// A program on a card that runs everybody in turn.
struct Load {
  double promised = 0;
  std::uint32_t planned_us = 0;
  double kernel_us = 0;  // it launches one and waits; 0: its queue is always full
  double gap_us = 0;     // between its kernels
  std::uint32_t slice_us = 0;
  double left_us = 0;   // of the kernel under way
  double ready_at = 0;  // when its next kernel is there
  double got_us = 0;
};

// How long it runs in a turn that begins at `now`.
double TurnOf(Load& load, double now) {
  if (load.kernel_us == 0) {
    return load.slice_us;
  }
  double ran = 0;
  while (load.ready_at <= now + ran && ran < load.slice_us) {
    if (load.left_us <= 0) {
      load.left_us = load.kernel_us;
    }
    const double part = std::min(load.left_us, load.slice_us - ran);
    ran += part;
    load.left_us -= part;
    if (load.left_us <= 0) {
      load.ready_at = now + ran + load.gap_us;
    }
  }
  return ran;
}

// The round for so many seconds, with a step of the feedback each 100 ms; parts of the last
// second.
std::vector<double> Played(std::vector<Load> loads, double seconds) {
  Feedback feedback;
  for (Load& load : loads) {
    load.slice_us = load.planned_us;
  }
  std::vector<double> last(loads.size(), 0);
  double now = 0;
  for (int step = 1; step <= seconds * 10; ++step) {
    const double begin = now;
    for (Load& load : loads) {
      load.got_us = 0;
    }
    while (now < begin + 100'000) {
      const double before = now;
      for (Load& load : loads) {
        const double ran = TurnOf(load, now);
        load.got_us += ran;
        now += ran > 0 ? ran + kSwitchUs : 0;
      }
      now += now == before ? 10 : 0;
    }
    std::vector<Feedback::Seen> seen;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const double part = loads[i].got_us / (now - begin);
      last[i] += step > (seconds - 1) * 10 ? part / 10 : 0;
      seen.push_back({std::to_string(i), loads[i].promised, part, loads[i].planned_us});
    }
    const auto slices = Stepped(feedback, seen, step * 0.1);
    for (std::size_t i = 0; i < loads.size(); ++i) {
      EXPECT_LE(slices[i], loads[i].planned_us);
      loads[i].slice_us = slices[i];
    }
  }
  return last;
}

TEST(Feedback, WhoWaitsForItsKernelsGetsItsPart) {
  for (const double kernel_us : {1'000.0, 2'000.0, 700.0}) {
    const auto got = Played({{0.5, 3'000, kernel_us, 60}, {0.5, 3'000}}, 3);
    EXPECT_NEAR(got[0], 0.5, 0.05) << kernel_us;
    EXPECT_NEAR(got[1], 0.5, 0.05) << kernel_us;
  }
}

TEST(Feedback, UnequalPartsToo) {
  const auto got = Played({{0.3, 1'800, 1'000, 60}, {0.7, 4'200}}, 3);
  EXPECT_NEAR(got[0], 0.3, 0.03);
  const auto other = Played({{0.7, 4'200, 3'000, 60}, {0.3, 1'800}}, 3);
  EXPECT_NEAR(other[0], 0.7, 0.05);
}

TEST(Feedback, FullQueuesStayAsPlanned) {
  const std::vector<Load> loads = {{0.5, 6'000}, {0.3, 3'600}, {0.2, 2'400}};
  Feedback feedback;
  for (int step = 0; step < 100; ++step) {
    // Measured in windows that end within a turn.
    const double off = 0.02 * std::sin(step * 1.7);
    const auto slices = Stepped(feedback,
                                {{"a", 0.5, 0.5 + off, 6'000},
                                 {"b", 0.3, 0.3 - off / 2, 3'600},
                                 {"c", 0.2, 0.2 - off / 2, 2'400}},
                                step * 0.1);
    EXPECT_GT(slices[0], 4'500U);
  }
  const auto got = Played(loads, 5);
  EXPECT_NEAR(got[0], 0.5, 0.01);
}

TEST(Feedback, WhoWantsLittleCostsNothing) {
  // 1 ms of work every 20 ms: shorter slices of the other bring it nothing.
  Feedback feedback;
  int shortened = 0;
  for (int step = 1; step <= 600; ++step) {
    const auto slices =
        Stepped(feedback, {{"little", 0.5, 0.05, 3'000}, {"much", 0.5, 0.95, 3'000}}, step * 0.1);
    shortened += slices[1] < 3'000 ? 1 : 0;
  }
  EXPECT_LT(shortened, 60);  // it is tried less and less often
  EXPECT_GT(shortened, 0);
}

TEST(Feedback, IsForgottenWhenItsReasonIsGone) {
  Feedback feedback;
  for (int step = 1; step < 6; ++step) {
    feedback.Step({{"a", 0.5, 0.2, 3'000}, {"b", 0.5, 0.8, 3'000}}, step * 0.1);
  }
  EXPECT_LT(feedback.SliceOf("b", 3'000), 3'000U);
  const auto slices = Stepped(feedback, {{"a", 0.5, 0, 3'000}, {"b", 0.5, 1, 3'000}}, 0.5);
  EXPECT_EQ(slices, std::vector<std::uint32_t>({3'000, 3'000}));
  EXPECT_EQ(feedback.SliceOf("b", 3'000), 3'000U);
}

TEST(Feedback, NoSliceIsShorterThanIsSensible) {
  Feedback feedback;
  for (int step = 1; step < 50; ++step) {
    const auto slices = Stepped(
        feedback, {{"a", 0.5, 0.01 + step * 0.005, 3'000}, {"b", 0.5, 0.99 - step * 0.005, 3'000}},
        step * 0.1);
    EXPECT_GE(slices[1], kLeastCorrectedUs);
  }
  const auto short_ones = Stepped(feedback, {{"c", 0.5, 0.1, 200}, {"d", 0.5, 0.9, 200}}, 10);
  EXPECT_EQ(short_ones, std::vector<std::uint32_t>({200, 200}));
}

TEST(Feedback, ANewcomerIsNotTakenForOneThatLacks) {
  Feedback feedback;
  for (int step = 1; step < 10; ++step) {
    feedback.Step({{"a", 0.5, 1, 3'000}, {"b", 0.5, 0, 3'000}}, step * 0.1);
  }
  // It came late in the first measurement that has it, and was away for one of the others.
  int step = 10;
  for (const double part : {0.1, 0.4, 0.5, 0.5, 0.5, 0.3, 0.5, 0.5, 0.5}) {
    const auto slices =
        Stepped(feedback, {{"a", 0.5, 1 - part, 3'000}, {"b", 0.5, part, 3'000}}, 0.1 * ++step);
    EXPECT_GE(slices[0], 2'700U) << step;
  }
}

TEST(Meter, CountsWhoWasOnTheEngine) {
  Meter meter;
  EXPECT_FALSE(meter.Take(0));
  meter.Add(7, 1'000, false);  // whose beginning nobody saw
  meter.Add(8, 1'100, true);
  meter.Add(8, 1'500, false);
  meter.Add(9, 1'600, true);
  EXPECT_FALSE(meter.Take(10'000));
  meter.Add(9, 2'000, false);
  const auto use = meter.Take(1'000);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->span_ns, 1'000U);
  EXPECT_DOUBLE_EQ(use->parts.at(8).on, 0.4);
  EXPECT_DOUBLE_EQ(use->parts.at(9).on, 0.4);
  EXPECT_EQ(use->parts.size(), 2U);
  meter.Add(8, 2'100, true);
  meter.Add(9, 4'000, true);  // the end of the one before was lost
  const auto next = meter.Take(0);
  ASSERT_TRUE(next);
  EXPECT_DOUBLE_EQ(next->parts.at(8).on, 0.95);
  EXPECT_DOUBLE_EQ(next->parts.at(8).between, 0.3) << "it was away from 1500 to 2100";
  EXPECT_EQ(next->parts.count(9), 1U);
  meter.Add(8, 5'000, false);
  meter.Lost();
  EXPECT_FALSE(meter.Take(0));
}

}  // namespace
}  // namespace cgpu::governor
