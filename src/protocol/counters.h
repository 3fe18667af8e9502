// A container's calls as its shim counts them, for those who watch it. Every count only grows, for
// as long as the container lives: a hot upgrade hands them over.
//
// Plain data. The lists never change, since programs of other versions read them by place.
#ifndef CGPU_PROTOCOL_COUNTERS_H_
#define CGPU_PROTOCOL_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace cgpu {

// Kinds of calls, in the order of boundary::CallKind.
inline constexpr auto kCallKinds =
    std::to_array<const char*>({"alloc", "free", "control", "dup", "map", "uvm", "mmap", "other"});

// Reasons why the shim refuses a call, in the order of boundary::Reason.
inline constexpr auto kRefusalReasons = std::to_array<const char*>(
    {"memory_limit", "quota", "gpu_not_granted", "invalid", "not_allowed", "not_known"});

// Upper bounds of durations, each inclusive. There is one place more than bounds, for calls that
// took longer.
inline constexpr auto kDurationBoundsNs = std::to_array<std::uint64_t>(
    {10'000, 30'000, 100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000});
inline constexpr std::size_t kDurations = kDurationBoundsNs.size() + 1;

struct CallCounters {
  std::array<std::uint64_t, kCallKinds.size()> calls{};  // answered, by kind
  std::array<std::uint64_t, kRefusalReasons.size()> refused{};
  // The same calls, by the time from their receipt to their answer. A place counts those that took
  // no longer than its bound, and longer than the one before.
  std::array<std::uint64_t, kDurations> durations{};
  std::uint64_t duration_ns = 0;  // of all of them together
  std::uint64_t upgrades = 0;     // hot upgrades that the shim has been through

  friend bool operator==(const CallCounters&, const CallCounters&) = default;
};

}  // namespace cgpu

#endif  // CGPU_PROTOCOL_COUNTERS_H_
