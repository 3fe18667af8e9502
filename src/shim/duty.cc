#include "shim/duty.h"

#include <algorithm>

namespace cgpu::shim {
namespace {

constexpr std::int64_t kMostSetOffUs = 1'000;
constexpr std::uint64_t kMostOwedOfUs = 200'000;
constexpr std::uint64_t kLeastPart = 5;

}  // namespace

void DutyCycle::Set(const governor::Duty& duty, std::uint64_t now_us) {
  if (duty != duty_) {
    const bool both = duty.period_us != 0 && duty_.period_us != 0;
    const std::int64_t owed = both ? std::max<std::int64_t>(owed_us_, 0) : 0;
    *this = {};
    duty_ = duty;
    last_us_ = now_us;
    owed_us_ = owed;
  }
}

// Returns the container's planned time, from the beginning of time.
std::uint64_t DutyCycle::PlannedUntil(std::uint64_t now_us) const {
  const std::uint64_t at = std::max<std::uint64_t>(now_us % duty_.period_us, duty_.phase_us);
  return now_us / duty_.period_us * duty_.on_us +
         std::min<std::uint64_t>(at - duty_.phase_us, duty_.on_us);
}

void DutyCycle::Account(bool ran, std::uint64_t now_us) {
  const std::uint64_t had = ran ? now_us - last_us_ : 0;
  const std::uint64_t planned = PlannedUntil(now_us) - PlannedUntil(last_us_);
  Owe(static_cast<std::int64_t>(had) - static_cast<std::int64_t>(planned));
  last_us_ = now_us;
}

void DutyCycle::Owe(std::int64_t us) {
  const auto most = static_cast<std::int64_t>(kMostOwedOfUs * duty_.on_us / duty_.period_us);
  owed_us_ = std::clamp(owed_us_ + us, -kMostSetOffUs, most);
}

void DutyCycle::Overran(std::uint64_t us) {
  if (duty_.period_us != 0) {
    Owe(static_cast<std::int64_t>(us));
  }
}

// Returns the length of the next window, by what is owed.
std::uint64_t DutyCycle::WindowLength() const {
  const auto owed = static_cast<std::uint64_t>(std::max<std::int64_t>(owed_us_, 0));
  const std::uint64_t left = duty_.on_us - std::min<std::uint64_t>(owed, duty_.on_us);
  return left < duty_.on_us / kLeastPart ? 0 : left;
}

const DutyState& DutyCycle::Update(bool ran, std::uint64_t now_us) {
  if (duty_.period_us == 0) {
    return state_;
  }
  Account(ran, now_us);
  const std::uint64_t period = now_us / duty_.period_us;
  if (period != period_) {
    period_ = period;
    length_us_ = WindowLength();
  }
  const std::uint64_t from = period * duty_.period_us + duty_.phase_us;
  const std::uint64_t to = from + length_us_;
  if (length_us_ == 0 || now_us >= to) {
    state_ = {false, from + duty_.period_us};
  } else if (now_us < from) {
    state_ = {false, from};
  } else {
    state_ = {true, to};
  }
  return state_;
}

}  // namespace cgpu::shim
