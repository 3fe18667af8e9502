// Counts a container's calls and refusals, for those who watch it (protocol/counters.h).
//
// Thread-safe, without a lock: it is on the way of every call.
#ifndef CGPU_SHIM_COUNTERS_H_
#define CGPU_SHIM_COUNTERS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "boundary/call.h"
#include "boundary/reasons.h"
#include "protocol/counters.h"

namespace cgpu::shim {

class Counters {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts a call that was received at `received`. Call it just before the answer: a program that
  // has its answer finds the call counted.
  void CountAnswered(boundary::CallKind kind, Clock::time_point received) {
    CountAnswered(kind, Clock::now() - received);
  }
  void CountAnswered(boundary::CallKind kind, std::chrono::nanoseconds took);
  void CountRefused(boundary::Reason reason);

  // Returns the counts. Calls that are answered meanwhile can be in some of them only.
  [[nodiscard]] CallCounters Read() const;
  // Goes on from a predecessor's counts. For a fresh one.
  void Resume(const CallCounters& counts);

 private:
  using Count = std::atomic<std::uint64_t>;

  std::array<Count, kCallKinds.size()> calls_{};
  std::array<Count, kRefusalReasons.size()> refused_{};
  std::array<Count, kDurations> durations_{};
  Count duration_ns_{0};
  std::uint64_t upgrades_ = 0;  // set before there are threads
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_COUNTERS_H_
