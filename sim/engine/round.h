// The order in which a runlist goes round its groups.
#ifndef CGPU_SIM_ENGINE_ROUND_H_
#define CGPU_SIM_ENGINE_ROUND_H_

#include <cstddef>
#include <span>
#include <vector>

#include "sim/engine/types.h"

namespace cgpu::sim::engine {

struct RoundMember {
  GroupKey group = 0;
  Interleave level = Interleave::kLow;
  friend bool operator==(const RoundMember&, const RoundMember&) = default;
};

// Returns the round: a HIGH member before each entry of a lower level, a MEDIUM one before each LOW
// one; within a level in the order given. The members of the lowest level that there is stand once.
// Where that makes more than kMostEntries, each member stands once, HIGH ones first: a runlist has
// an end.
inline constexpr std::size_t kMostEntries = 65'536;
[[nodiscard]] std::vector<GroupKey> MakeRound(std::span<const RoundMember> members);

// Returns the place in the round `after` that continues the round `before` from `position`: the
// entry that is followed by what would have followed, as far as it is still there.
[[nodiscard]] std::size_t SamePlace(std::span<const GroupKey> before, std::size_t position,
                                    std::span<const GroupKey> after);

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_ROUND_H_
