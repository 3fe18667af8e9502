// When a container under a duty cycle (governor/order.h) is on its card, and what it owes because
// somebody's clock was late: a window that ended late is paid for out of the next ones.
//
// Pure: times are microseconds of CLOCK_MONOTONIC, and are given. Not thread-safe.
#ifndef CGPU_SHIM_DUTY_H_
#define CGPU_SHIM_DUTY_H_

#include <cstdint>
#include <limits>

#include "governor/order.h"

namespace cgpu::shim {

struct DutyState {
  bool on = true;
  std::uint64_t until_us = std::numeric_limits<std::uint64_t>::max();  // when that is to change
};

class DutyCycle {
 public:
  // Nothing is owed for what was before. The same duty again changes nothing. Update() comes next.
  void Set(const governor::Duty& duty, std::uint64_t now_us);

  // Since the last call the container ran on the card as it liked, or did not run. Returns what is
  // to be from now on. Calls go forward in time.
  //
  // How long a window is, is settled at the first call in its period. One that began late is set
  // off against one that ended late, up to a millisecond, and is never made longer: after it the
  // card is somebody else's. Of a window of which less than a fifth would be left nothing is used.
  // More than what it is to have in 200 ms is never owed: that a machine stood still does not keep
  // a container off the card for longer.
  const DutyState& Update(bool ran, std::uint64_t now_us);

  // It ran on for so long after the last call: it has a kernel that cannot be preempted.
  void Overran(std::uint64_t us);

  // As Update() said last.
  [[nodiscard]] const DutyState& State() const { return state_; }

 private:
  [[nodiscard]] std::uint64_t PlannedUntil(std::uint64_t now_us) const;
  void Account(bool ran, std::uint64_t now_us);
  void Owe(std::int64_t us);
  [[nodiscard]] std::uint64_t WindowLength() const;

  governor::Duty duty_;
  DutyState state_;
  std::uint64_t last_us_ = 0;    // of the last call
  std::int64_t owed_us_ = 0;     // negative: it had less
  std::uint64_t period_ = 0;     // whose window is settled, counted from the beginning of time
  std::uint64_t length_us_ = 0;  // of that window
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_DUTY_H_
