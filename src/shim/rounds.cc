#include "shim/rounds.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cgpu::shim {
namespace {

// Times since the look before. The last ones are for a driver that is slow to act on a close.
constexpr std::array<std::uint64_t, 13> kStepsUs = {
    1'000,   4'000,   10'000,    20'000,    40'000,    80'000,    160'000,
    320'000, 640'000, 1'280'000, 2'560'000, 5'120'000, 10'240'000};
constexpr std::uint64_t kAgainUs = 100'000;  // where a file was closed since
constexpr std::size_t kStepAgain = 6;        // the first step that is longer
// Pace while exported objects, and so the grant, live on elsewhere, or while a thread makes no
// progress.
constexpr std::uint64_t kSlowlyUs = 1'000'000;
constexpr std::uint64_t kRestFor = 9;  // multiple of the time that a look took

}  // namespace

void Rounds::Begin(std::uint64_t now_us) {
  step_ = 0;
  due_us_ = std::max(now_us + kStepsUs[0], allowed_us_);
}

void Rounds::Hasten(std::uint64_t now_us) {
  const auto before = due_us_;
  Begin(now_us);
  due_us_ = std::min(*due_us_, before.value_or(*due_us_));
}

std::uint64_t Rounds::SoonestAgain(std::uint64_t now_us) const {
  return std::max({last_us_ + kAgainUs, now_us + kStepsUs[0], allowed_us_});
}

bool Rounds::Hears(std::uint64_t now_us) const {
  return !due_us_ || SoonestAgain(now_us) < *due_us_;
}

void Rounds::Closed(std::uint64_t now_us, bool holding) {
  if (due_us_) {
    again_ = true;
    due_us_ = std::min(*due_us_, SoonestAgain(now_us));
  } else if (holding) {
    Begin(now_us);
  } else {
    step_ = kStepsUs.size();
    due_us_ = SoonestAgain(now_us);
  }
}

void Rounds::Done(const Look& look) {
  last_us_ = look.ended_us;
  allowed_us_ = look.ended_us + kRestFor * (look.ended_us - std::min(look.began_us, look.ended_us));
  due_us_.reset();
  step_ = look.found ? 1 : step_ + 1;
  const bool again = std::exchange(again_, false) && look.holding;
  if (again) {
    step_ = std::min(step_, kStepAgain);
  }
  std::optional<std::uint64_t> wait;
  if (look.holding && step_ < kStepsUs.size()) {
    wait = again ? std::min(kStepsUs[step_], kAgainUs) : kStepsUs[step_];
  }
  if (look.over || look.watching) {
    wait = std::min(wait.value_or(kSlowlyUs), kSlowlyUs);
  }
  if (wait) {
    due_us_ = std::max(look.ended_us + *wait, allowed_us_);
  }
}

}  // namespace cgpu::shim
