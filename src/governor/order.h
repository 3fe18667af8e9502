// A standing order: what a container's shim does so that its GPU's policy holds. It holds until
// another one comes, even if cgpud is away meanwhile. plan.h describes its means.
#ifndef CGPU_GOVERNOR_ORDER_H_
#define CGPU_GOVERNOR_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cgpu::governor {

// Times at which a container is on the GPU: for `on_us` from `phase_us` after each whole multiple
// of `period_us` of CLOCK_MONOTONIC, which is the same for all shims of a host. None: `period_us`
// is 0, and the container is always on.
struct Duty {
  std::uint32_t period_us = 0;
  std::uint32_t on_us = 0;
  std::uint32_t phase_us = 0;

  bool operator==(const Duty&) const = default;
};

// Names that which the shim does to channels that run after it has set their time slices, so that
// these take effect (Effect of card.h).
enum class Trigger : std::uint8_t {
  kNone = 0,
  kRestart = 1,   // RESTART_RUNLIST, once for all groups
  kSchedule = 2,  // GPFIFO_SCHEDULE of each group once more
  kPreempt = 3,   // PREEMPT of each group
};

// The order for one container on one GPU.
struct Order {
  // Time slice of each round, divided among the channel groups that the container has scheduled. 0:
  // as the driver pleases.
  std::uint32_t slice_us = 0;
  Duty duty;
  // High priority: the container's channel groups go between every two of the others'. Where the
  // GPU does that, they have `turns` time slices in a round (0: one), and `slice_us` is for all of
  // them.
  bool high = false;
  // Whether some channel groups may be off the GPU in turn, where there are more than the time
  // slice can be divided among.
  bool may_rest = false;
  std::uint32_t turns = 0;
  Trigger trigger = Trigger::kNone;

  bool operator==(const Order&) const = default;
};

// Longest time slice.
inline constexpr std::uint64_t kMostTurnUs = 1'000'000;

// Returns whether an order can be carried out: time slices that are not too long, a window that is
// not empty and lies within its period, a period of 1 ms to 1 s.
[[nodiscard]] constexpr bool IsSound(const Order& order) {
  constexpr std::uint32_t kLeastUs = 1'000;
  constexpr std::uint32_t kMostUs = 1'000'000;
  const Duty& duty = order.duty;
  if (order.slice_us > kMostTurnUs * std::max<std::uint32_t>(order.turns, 1)) {
    return false;
  }
  if (duty.period_us == 0) {
    return duty == Duty{};
  }
  return duty.period_us >= kLeastUs && duty.period_us <= kMostUs && duty.on_us > 0 &&
         duty.on_us <= duty.period_us && duty.phase_us <= duty.period_us - duty.on_us;
}

// Time that the GPU needs to go from one channel group to another; nothing runs meanwhile. An H200
// takes 140 to 160 us (docs/hardware/h200-580.159.04.md). Nobody has measured another GPU: plans
// for all take what this one needs. Where a switch is faster, less is lost than planned.
inline constexpr std::uint64_t kSwitchUs = 150;
// Shortest time slice: a container has more switches than work of a shorter one.
inline constexpr std::uint64_t kLeastTurnUs = kSwitchUs;

// Returns the number of channel groups that a container's time slice can be divided among.
[[nodiscard]] constexpr std::size_t MostGroups(std::uint64_t slice_us) {
  return std::max<std::size_t>((slice_us + kSwitchUs) / (kLeastTurnUs + kSwitchUs), 1);
}

// Returns the time slice of each of `groups` channel groups. Each pays for the switch to it, so
// that all together take no more of a round than a single one does with its only switch. Beyond
// MostGroups() they take more, because a time slice cannot be below 1 us.
[[nodiscard]] constexpr std::uint64_t TurnOf(std::uint64_t slice_us, std::size_t groups) {
  const std::uint64_t part = (slice_us + kSwitchUs) / std::max<std::size_t>(groups, 1);
  return part > kSwitchUs ? part - kSwitchUs : 1;
}

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_ORDER_H_
