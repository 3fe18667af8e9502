#include "governor/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "governor/meter.h"

namespace cgpu::governor {
namespace {

constexpr double kEachRound = 5'000;  // time slices per second: one in each round, however short

// Returns the time slices after a step.
std::vector<std::uint32_t> Stepped(Feedback& feedback, const std::vector<Feedback::Seen>& seen,
                                   double now_s) {
  feedback.Step(seen, now_s);
  std::vector<std::uint32_t> slices;
  for (const Feedback::Seen& one : seen) {
    slices.push_back(feedback.SliceOf(one.id, one.slice_us));
  }
  return slices;
}

// A program on a GPU that runs all programs in turn.
struct Load {
  double promised = 0;
  std::uint32_t planned_us = 0;
  double kernel_us = 0;  // it launches one and waits; 0: its queue is always full
  double gap_us = 0;     // between its kernels
  double every_us = 0;   // mean time between requests, which come at random; 0: it waits for none
  int most_kernels = 1;  // kernels of a request
  std::uint32_t slice_us = 0;
  double left_us = 0;   // rest of the kernel under way
  double ready_at = 0;  // time of its next kernel
  double got_us = 0;
  int turns = 0;
  std::deque<int> requests{};  // kernels to do
  double request_at = 0;       // time of the next request
  std::mt19937 random{7};
};

// Adds the requests that have come by `now`.
void Arrive(Load& load, double now) {
  while (load.every_us > 0 && load.request_at <= now) {
    const double chance = (static_cast<double>(load.random()) + 0.5) / 4294967296.0;
    load.request_at -= load.every_us * std::log(chance);
    load.requests.push_back(
        1 + static_cast<int>(load.random() % static_cast<unsigned>(load.most_kernels)));
  }
}

// Returns how long it runs in a time slice that begins at `now`.
double RunTimeOf(Load& load, double now) {
  if (load.kernel_us == 0) {
    return load.slice_us;
  }
  double ran = 0;
  for (;;) {
    Arrive(load, now + ran);
    if (load.ready_at > now + ran || ran >= load.slice_us ||
        (load.every_us > 0 && load.requests.empty())) {
      return ran;
    }
    if (load.left_us <= 0) {
      load.left_us = load.kernel_us;
    }
    const double part = std::min(load.left_us, load.slice_us - ran);
    ran += part;
    load.left_us -= part;
    if (load.left_us <= 0) {
      load.ready_at = now + ran + load.gap_us;
      if (load.every_us > 0 && --load.requests.front() == 0) {
        load.requests.pop_front();
      }
    }
  }
}

// The GPU's rounds, with a step of the feedback each 16 planned rounds.
class SimulatedGpu {
 public:
  explicit SimulatedGpu(std::vector<Load> loads) : loads_(std::move(loads)) {
    for (Load& load : loads_) {
      load.slice_us = load.planned_us;
      length_us_ += 16 * load.planned_us;
    }
  }
  // Returns the shares of the time from now on.
  std::vector<double> Play(double seconds) {
    const double begin = now_;
    std::vector<double> had(loads_.size(), 0);
    while (now_ < begin + seconds * 1e6) {
      Measure();
      for (std::size_t i = 0; i < loads_.size(); ++i) {
        had[i] += loads_[i].got_us;
      }
    }
    for (double& one : had) {
      one /= now_ - begin;
    }
    return had;
  }
  // Return the seconds in which a time slice was shorter than half of the planned one, and how
  // often that began.
  [[nodiscard]] double ShortSeconds() const { return short_us_ / 1e6; }
  [[nodiscard]] int Flips() const { return flips_; }
  bool corrected = true;

 private:
  void Measure() {
    const double begin = now_;
    for (Load& load : loads_) {
      load.got_us = 0;
      load.turns = 0;
    }
    while (now_ < begin + length_us_) {
      const double before = now_;
      for (std::size_t i = 0; i < loads_.size(); ++i) {
        const double ran = RunTimeOf(loads_[i], now_);
        if (ran > 0) {
          now_ += ran + (i == latest_ ? 0 : kSwitchUs);
          loads_[i].got_us += ran;
          loads_[i].turns += i == latest_ ? 0 : 1;
          latest_ = i;
        }
      }
      now_ += now_ == before ? 10 : 0;
    }
    if (corrected) {
      Correct(now_ - begin);
    }
  }
  void Correct(double length_us) {
    std::vector<Feedback::Seen> seen;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      const Load& load = loads_[i];
      seen.push_back({std::to_string(i), load.promised, load.got_us / length_us, load.planned_us,
                      load.turns * 1e6 / length_us});
    }
    const auto slices = Stepped(feedback_, seen, now_ / 1e6);
    bool is_short = false;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      EXPECT_LE(slices[i], loads_[i].planned_us);
      loads_[i].slice_us = slices[i];
      is_short = is_short || slices[i] < loads_[i].planned_us / 2;
    }
    short_us_ += is_short ? length_us : 0;
    flips_ += is_short && !was_short_ ? 1 : 0;
    was_short_ = is_short;
  }

  std::vector<Load> loads_;
  Feedback feedback_;
  double length_us_ = 0;
  double now_ = 0;
  double short_us_ = 0;
  int flips_ = 0;
  bool was_short_ = false;
  std::size_t latest_ = 0;
};

// Returns the shares of the last second.
std::vector<double> Played(const std::vector<Load>& loads, double seconds) {
  SimulatedGpu gpu(loads);
  (void)gpu.Play(seconds - 1);
  return gpu.Play(1);
}

double SumOf(const std::vector<double>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

// Returns a service and so many jobs, all with the same share.
std::vector<Load> ServiceAndJobs(int jobs, double kernel_us, int kernels, double every_us) {
  const double part = 1.0 / (jobs + 1);
  std::vector<Load> loads(static_cast<std::size_t>(jobs) + 1, Load{part, 6'000});
  loads[0].kernel_us = kernel_us;
  loads[0].every_us = every_us;
  loads[0].most_kernels = kernels;
  return loads;
}

TEST(Feedback, WhoWaitsForItsKernelsGetsItsPart) {
  for (const double kernel_us : {1'000.0, 2'000.0, 700.0}) {
    const auto got = Played({{0.5, 6'000, kernel_us, 60}, {0.5, 6'000}}, 3);
    // There is a switch for each kernel, and one back.
    const double part = kernel_us / (2 * (kernel_us + kSwitchUs));
    EXPECT_NEAR(got[0], part, 0.02) << kernel_us;
    EXPECT_NEAR(got[1], part, 0.02) << kernel_us;
  }
}

TEST(Feedback, UnequalPartsToo) {
  const auto got = Played({{0.3, 3'600, 1'000, 60}, {0.7, 8'400}}, 3);
  EXPECT_NEAR(got[0], 0.3, 0.03);
  const auto other = Played({{0.7, 8'400, 3'000, 60}, {0.3, 3'600}}, 3);
  EXPECT_NEAR(other[0], 0.7, 0.05);
}

TEST(Feedback, FullQueuesStayAsPlanned) {
  const std::vector<Load> loads = {{0.5, 6'000}, {0.3, 3'600}, {0.2, 2'400}};
  Feedback feedback;
  for (int step = 0; step < 100; ++step) {
    // The measured windows end within a time slice.
    const double off = 0.02 * std::sin(step * 1.7);
    const auto slices = Stepped(feedback,
                                {{"a", 0.5, 0.5 + off, 6'000},
                                 {"b", 0.3, 0.3 - off / 2, 3'600},
                                 {"c", 0.2, 0.2 - off / 2, 2'400}},
                                step * 0.1);
    EXPECT_GT(slices[0], 4'500U);
  }
  const auto got = Played(loads, 5);
  EXPECT_NEAR(got[0], 0.5 * 12'000 / (12'000 + 3 * kSwitchUs), 0.001);
}

TEST(Feedback, WhoWantsLittleCostsNothing) {
  // 1 ms of work every 20 ms: the program is absent in most rounds.
  Feedback feedback;
  for (int step = 1; step <= 600; ++step) {
    const auto slices = Stepped(
        feedback, {{"little", 0.5, 0.05, 6'000, 50}, {"much", 0.5, 0.95, 6'000, 50}}, step * 0.1);
    EXPECT_EQ(slices[1], 6'000U);
  }
}

TEST(Feedback, WhomShorterSlicesBringNothingIsLeftInPeace) {
  Feedback feedback;
  int shortened = 0;
  for (int step = 1; step <= 600; ++step) {
    const auto slices =
        Stepped(feedback, {{"little", 0.5, 0.05, 6'000, kEachRound}, {"much", 0.5, 0.95, 6'000}},
                step * 0.1);
    shortened += slices[1] < 6'000 ? 1 : 0;
  }
  EXPECT_LT(shortened, 60);  // it is tried less and less often
  EXPECT_GT(shortened, 0);
}

TEST(Feedback, AServiceCostsTheJobsLittle) {
  for (const int jobs : {1, 4}) {
    for (const auto& [kernel_us, kernels, every_us] :
         {std::tuple(2'000.0, 1, 25'000.0), std::tuple(500.0, 1, 10'000.0),
          std::tuple(5'000.0, 1, 60'000.0), std::tuple(1'000.0, 5, 40'000.0),
          std::tuple(2'000.0, 1, 12'500.0), std::tuple(500.0, 5, 60'000.0)}) {
      const auto loads = ServiceAndJobs(jobs, kernel_us, kernels, every_us);
      SimulatedGpu gpu(loads);
      SimulatedGpu planned(loads);
      planned.corrected = false;
      (void)gpu.Play(5);
      (void)planned.Play(5);
      const auto got = gpu.Play(175);
      const auto without = planned.Play(175);
      const std::string what = std::to_string(jobs) + " jobs, a request of up to " +
                               std::to_string(kernels) + " kernels of " +
                               std::to_string(kernel_us) + " us each " + std::to_string(every_us);
      EXPECT_GT(SumOf(got), SumOf(without) - 0.025) << what;
      EXPECT_GT(got[0], without[0] - 0.01) << what;
      EXPECT_LE(gpu.Flips(), 10) << what;
    }
  }
}

TEST(Feedback, WhoPausesIsHelpedOnlyAsFarAsItIsWorthIt) {
  for (const auto& [kernel_us, gap_us, jobs, helped] :
       {std::tuple(1'000.0, 2'000.0, 1, true), std::tuple(500.0, 1'000.0, 4, true),
        std::tuple(2'000.0, 10'000.0, 4, false), std::tuple(1'000.0, 5'000.0, 1, false)}) {
    auto loads = ServiceAndJobs(jobs, kernel_us, 1, 0);
    loads[0].gap_us = gap_us;
    SimulatedGpu gpu(loads);
    SimulatedGpu planned(loads);
    planned.corrected = false;
    (void)gpu.Play(5);
    const auto got = gpu.Play(115);
    const auto without = planned.Play(120);
    const double gain = got[0] - without[0];
    EXPECT_EQ(gain > 0.05, helped) << kernel_us << " us each " << gap_us;
    // The shortest time slices with their switches: four fifths of the time and a gap.
    EXPECT_GT(SumOf(got), helped ? 0.78 : SumOf(without) - 0.02)
        << kernel_us << " us each " << gap_us;
  }
}

TEST(Feedback, AServiceKeepsNobodyWhoWaitsFromItsPart) {
  for (const double every_us : {25'000.0, 120'000.0}) {  // the latter is often not seen for a while
    auto loads = ServiceAndJobs(2, 2'000, 1, every_us);
    loads[1].kernel_us = 1'000;
    loads[1].gap_us = 60;
    SimulatedGpu gpu(loads);
    (void)gpu.Play(2);
    const auto got = gpu.Play(60);
    EXPECT_GT(got[1], 0.30) << every_us;
    EXPECT_LE(gpu.Flips(), 10) << every_us;
  }
}

TEST(Feedback, IsForgottenWhenItsReasonIsGone) {
  Feedback feedback;
  for (int step = 1; step < 6; ++step) {
    feedback.Step({{"a", 0.5, 0.2, 6'000, kEachRound}, {"b", 0.5, 0.8, 6'000}}, step * 0.1);
  }
  EXPECT_LT(feedback.SliceOf("b", 6'000), 6'000U);
  const auto slices = Stepped(feedback, {{"a", 0.5, 0, 6'000}, {"b", 0.5, 1, 6'000}}, 0.5);
  EXPECT_EQ(slices, std::vector<std::uint32_t>({6'000, 6'000}));
  EXPECT_EQ(feedback.SliceOf("b", 6'000), 6'000U);
}

TEST(Feedback, NoSliceIsShorterThanIsSensible) {
  Feedback feedback;
  for (int step = 1; step < 50; ++step) {
    const auto slices = Stepped(feedback,
                                {{"a", 0.5, 0.01 + step * 0.005, 6'000, kEachRound},
                                 {"b", 0.5, 0.99 - step * 0.005, 6'000}},
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
  // The program came late in the first measurement that has it, and was away for one of the others.
  int step = 10;
  for (const double part : {0.1, 0.4, 0.5, 0.5, 0.5, 0.3, 0.5, 0.5, 0.5}) {
    const auto slices = Stepped(
        feedback, {{"a", 0.5, 1 - part, 3'000}, {"b", 0.5, part, 3'000, kEachRound}}, 0.1 * ++step);
    EXPECT_GE(slices[0], 2'700U) << step;
  }
}

// Or who has many would look as if it lacked what it spends on them, and others would have less.
TEST(Meter, CountsSwitchesBetweenItsOwnContexts) {
  Meter meter;
  meter.Add(7, 1'000, true);
  meter.Add(7, 2'000, false);
  meter.Add(8, 2'100, true);
  meter.Add(8, 3'000, false);
  ASSERT_TRUE(meter.Take(0));
  meter.Add(8, 4'000, true);
  meter.Add(8, 5'000, false);
  meter.Add(8, 6'000, true);
  meter.Add(8, 7'000, false);
  const auto use = meter.Take(0);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->span_ns, 4'000U);
  EXPECT_DOUBLE_EQ(use->parts.at(8).on, 1);
  EXPECT_DOUBLE_EQ(use->parts.at(8).between, 0);
  EXPECT_DOUBLE_EQ(use->parts.at(8).turns, 0);
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
  EXPECT_DOUBLE_EQ(use->parts.at(8).turns, 0) << "nobody is known to have been before it";
  EXPECT_DOUBLE_EQ(use->parts.at(9).turns, 1e6);
  meter.Add(8, 2'100, true);
  meter.Add(9, 4'000, true);  // the end of the one before was lost
  const auto next = meter.Take(0);
  ASSERT_TRUE(next);
  EXPECT_DOUBLE_EQ(next->parts.at(8).on, 0.95);
  EXPECT_DOUBLE_EQ(next->parts.at(8).between, 0.2) << "another was there from 1600 to 2000";
  EXPECT_EQ(next->parts.count(9), 1U);
  meter.Add(8, 5'000, false);
  meter.Lost();
  EXPECT_FALSE(meter.Take(0));
}

// The clock took it off and put it back; nobody else was there.
TEST(Meter, DoesNotCountTimeInWhichTheEngineWasEmpty) {
  Meter meter;
  meter.Add(8, 0, true);
  meter.Add(8, 10'000'000, false);
  meter.Add(8, 40'000'000, true);
  meter.Add(8, 50'000'000, false);
  const auto use = meter.Take(0);
  ASSERT_TRUE(use);
  EXPECT_DOUBLE_EQ(use->parts.at(8).on, 0.4);
  EXPECT_DOUBLE_EQ(use->parts.at(8).between, 0);
}

}  // namespace
}  // namespace cgpu::governor
