// Computes when a container under a duty cycle (governor/order.h) is on its GPU, and the time that
// it owes because a clock was late: the next windows pay for a window that ended late.
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
  std::uint64_t until_us = std::numeric_limits<std::uint64_t>::max();  // when `on` is to change
};

class DutyCycle {
 public:
  // Sets the duty. What is owed for windows stays owed, else a container that owes could have
  // others come and go. The same duty again changes nothing. Update() comes next.
  void Set(const governor::Duty& duty, std::uint64_t now_us);

  // Returns the state that holds from now on. `ran`: since the last call the container ran on the
  // GPU as it liked, or did not run. Calls go forward in time.
  //
  // The first call in a period settles the length of its window. A window that began late is set
  // off against one that ended late, up to a millisecond, and is never made longer: after it the
  // GPU is another container's. A window of which less than a fifth would be left is not used at
  // all. The debt is never more than the container's time in 200 ms, so a machine that stood still
  // does not keep a container off the GPU for longer.
  const DutyState& Update(bool ran, std::uint64_t now_us);

  // Notes that the container ran on for so long after the last call: it has a kernel that cannot be
  // preempted.
  void Overran(std::uint64_t us);

  // Returns what Update() returned last.
  [[nodiscard]] const DutyState& State() const { return state_; }

 private:
  [[nodiscard]] std::uint64_t PlannedUntil(std::uint64_t now_us) const;
  void Account(bool ran, std::uint64_t now_us);
  void Owe(std::int64_t us);
  [[nodiscard]] std::uint64_t WindowLength() const;

  governor::Duty duty_;
  DutyState state_;
  std::uint64_t last_us_ = 0;  // of the last call
  std::int64_t owed_us_ = 0;   // negative: it had less
  std::uint64_t period_ = 0;   // the period whose window is settled, counted from the beginning of
                               // time
  std::uint64_t length_us_ = 0;  // of that window
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_DUTY_H_
