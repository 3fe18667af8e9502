#include "governor/habits.h"

#include <algorithm>
#include <utility>

namespace cgpu::governor {
namespace {

// Variances of a process not known yet, and what is added to them each window, as habits change.
constexpr double kWorksVariance = 0.1;
constexpr double kBurstVariance = 1.3e-5;
constexpr double kWorksDrift = 5e-5;
constexpr double kBurstDrift = 5e-8;
constexpr double kLeastNoise = 0.01 * 0.01;
constexpr double kNoiseRate = 0.05;

}  // namespace

Habits::Habit Habits::Of(std::uint32_t pid) const {
  const auto known = std::ranges::find(known_, pid, &Known::pid);
  return known == known_.end() ? Habit{} : known->habit;
}

void Habits::Add(std::uint32_t pid) {
  const std::size_t before = Places();
  known_.push_back({pid, window_, {}});
  std::vector<double> larger(Places() * Places());
  for (std::size_t row = 0; row < before; ++row) {
    std::copy_n(covariance_.begin() + static_cast<std::ptrdiff_t>(row * before), before,
                larger.begin() + static_cast<std::ptrdiff_t>(row * Places()));
  }
  covariance_ = std::move(larger);
  Covariance(before, before) = kWorksVariance;
  Covariance(before + 1, before + 1) = kBurstVariance;
}

void Habits::Forget(std::size_t index) {
  std::vector<double> smaller;
  for (std::size_t row = 0; row < Places(); ++row) {
    for (std::size_t column = 0; column < Places(); ++column) {
      if (row / 2 != index && column / 2 != index) {
        smaller.push_back(Covariance(row, column));
      }
    }
  }
  known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(index));
  covariance_ = std::move(smaller);
}

std::size_t Habits::IndexOf(std::uint32_t pid) {
  const auto known = std::ranges::find(known_, pid, &Known::pid);
  if (known != known_.end()) {
    known->seen = window_;
    return static_cast<std::size_t>(known - known_.begin());
  }
  if (known_.size() == kMost) {
    Forget(static_cast<std::size_t>(std::ranges::min_element(known_, {}, &Known::seen) -
                                    known_.begin()));
  }
  Add(pid);
  return known_.size() - 1;
}

void Habits::Correct(std::size_t place, double by) {
  Habit& habit = known_[place / 2].habit;
  double& value = place % 2 == 0 ? habit.works : habit.burst;
  value = std::clamp(value + by, 0.0, 1.0);
}

void Habits::Learn(const std::vector<Presence>& present, double busy) {
  ++window_;
  for (const Presence& one : present) {
    (void)IndexOf(one.pid);
  }
  std::vector<double> measured(Places());  // how the window's busy time depends on each place
  for (const Presence& one : present) {
    const std::size_t index = IndexOf(one.pid);
    measured[2 * index] = one.there;
    measured[2 * index + 1] = one.turns * (1 - known_[index].habit.works);
  }
  const auto off_by = [&] {
    double off = busy;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      off -= known_[i].habit.works * measured[2 * i] + known_[i].habit.burst * measured[2 * i + 1];
    }
    return off;
  };
  std::vector<double> gain(Places());
  double variance = noise_;
  for (std::size_t row = 0; row < Places(); ++row) {
    for (std::size_t column = 0; column < Places(); ++column) {
      gain[row] += Covariance(row, column) * measured[column];
    }
    variance += measured[row] * gain[row];
  }
  const double off = off_by();
  for (std::size_t row = 0; row < Places(); ++row) {
    Correct(row, gain[row] / variance * off);
    for (std::size_t column = 0; column < Places(); ++column) {
      Covariance(row, column) -= gain[row] * gain[column] / variance;
    }
    Covariance(row, row) =
        std::max(Covariance(row, row), 0.0) + (row % 2 == 0 ? kWorksDrift : kBurstDrift);
  }
  const double still = off_by();
  noise_ = std::max(kLeastNoise, (1 - kNoiseRate) * noise_ + kNoiseRate * still * still);
}

}  // namespace cgpu::governor
