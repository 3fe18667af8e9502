#include "sim/engine/round.h"

#include <array>
#include <unordered_set>

namespace cgpu::sim::engine {
namespace {

using Levels = std::array<std::vector<GroupKey>, 3>;

void Append(std::vector<GroupKey>& round, const std::vector<GroupKey>& groups) {
  round.insert(round.end(), groups.begin(), groups.end());
}

std::vector<GroupKey> Flat(const Levels& levels) {
  std::vector<GroupKey> round;
  for (const std::size_t level : {2U, 1U, 0U}) {
    Append(round, levels[level]);
  }
  return round;
}

}  // namespace

std::vector<GroupKey> MakeRound(std::span<const RoundMember> members) {
  Levels levels;
  for (const RoundMember& member : members) {
    levels[static_cast<std::size_t>(member.level)].push_back(member.group);
  }
  const auto& [low, medium, high] = levels;
  const std::size_t lower = medium.size() * (high.size() + 1);
  const std::size_t entries = low.empty() ? lower : low.size() * (lower + high.size() + 1);
  if (entries == 0 || entries > kMostEntries) {
    return Flat(levels);
  }
  std::vector<GroupKey> mediums;
  for (const GroupKey group : medium) {
    Append(mediums, high);
    mediums.push_back(group);
  }
  if (low.empty()) {
    return mediums;
  }
  std::vector<GroupKey> round;
  for (const GroupKey group : low) {
    Append(round, mediums);
    Append(round, high);
    round.push_back(group);
  }
  return round;
}

std::size_t SamePlace(std::span<const GroupKey> before, std::size_t position,
                      std::span<const GroupKey> after) {
  if (after.empty() || before.empty()) {
    return 0;
  }
  constexpr std::size_t kCompared = 16;  // entries: two places with as many alike are as good
  const std::unordered_set<GroupKey> still(after.begin(), after.end());
  std::vector<GroupKey> next;
  for (std::size_t i = 1; i < before.size() && next.size() < kCompared; ++i) {
    if (const GroupKey group = before[(position + i) % before.size()]; still.contains(group)) {
      next.push_back(group);
    }
  }
  std::size_t best = after.size() - 1;
  std::size_t best_alike = 0;
  for (std::size_t at = 0; at < after.size(); ++at) {
    // The entry itself counts less than those behind it.
    std::size_t alike = 0;
    while (alike < next.size() && after[(at + 1 + alike) % after.size()] == next[alike]) {
      ++alike;
    }
    alike = (alike * 2) + (after[at] == before[position] ? 1 : 0);
    if (alike > best_alike) {
      best_alike = alike;
      best = at;
    }
  }
  return best;
}

}  // namespace cgpu::sim::engine
