// A standing order: what a container's shim is to do so that its card's policy holds. It holds
// until another comes, whoever is away meanwhile. See plan.h for what its means are.
#ifndef CGPU_GOVERNOR_ORDER_H_
#define CGPU_GOVERNOR_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cgpu::governor {

// On for `on_us` from `phase_us` after each whole multiple of `period_us` of CLOCK_MONOTONIC, which
// is the same for all shims of a machine. None: `period_us` is 0, and it is always on.
struct Duty {
  std::uint32_t period_us = 0;
  std::uint32_t on_us = 0;
  std::uint32_t phase_us = 0;

  bool operator==(const Duty&) const = default;
};

// Of one container on one card.
struct Order {
  // For each round, to be divided among the channel groups that it has scheduled. 0: as the driver
  // pleases.
  std::uint32_t slice_us = 0;
  Duty duty;
  // Its groups go between every two of the others'. Where the card does that, they have so many
  // turns in a round (0: one), and `slice_us` is for all of them.
  bool high = false;
  // Of more channel groups than its slice can be divided among, some may be off the card in turn.
  bool may_rest = false;
  std::uint32_t turns = 0;

  bool operator==(const Order&) const = default;
};

// No turn is longer.
inline constexpr std::uint64_t kMostTurnUs = 1'000'000;

// Whether it can be carried out: turns that are not too long, a window that is something and lies
// within its period, a period of at least a millisecond and no more than a second.
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

// What the card needs to go from one channel group to another, of which nothing runs meanwhile.
// Measured cards: 44 MB of context at 1.1 TB/s.
inline constexpr std::uint64_t kSwitchUs = 40;
// Of shorter turns a container has little but switches.
inline constexpr std::uint64_t kLeastTurnUs = 50;

// How many channel groups a container's slice can be divided among.
[[nodiscard]] constexpr std::size_t MostGroups(std::uint64_t slice_us) {
  return std::max<std::size_t>((slice_us + kSwitchUs) / (kLeastTurnUs + kSwitchUs), 1);
}

// The slice of each of so many. Each pays for the switch to it, so that all together take no more
// of a round than a single one does with its only switch; but for those beyond MostGroups(), whose
// slices cannot be below 1 us.
[[nodiscard]] constexpr std::uint64_t TurnOf(std::uint64_t slice_us, std::size_t groups) {
  const std::uint64_t part = (slice_us + kSwitchUs) / std::max<std::size_t>(groups, 1);
  return part > kSwitchUs ? part - kSwitchUs : 1;
}

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_ORDER_H_
