#include "exporter/use_counter.h"

#include <utility>

namespace cgpu::exporter {
namespace {

constexpr double kNsPerSecond = 1e9;

// Turns a part of what was measured into seconds.
UsedSeconds SecondsOf(const governor::Meter::Part& part, std::uint64_t span_ns) {
  const double span = static_cast<double>(span_ns) / kNsPerSecond;
  return {part.on * span, part.between * span};
}

}  // namespace

UseCounter::Owner UseCounter::OwnerOf(std::uint32_t pid, const Whose& whose) {
  if (auto owner = whose(pid)) {
    return owners_[pid] = std::move(*owner);
  }
  const auto before = owners_.extract(pid);
  return before.empty() ? kEnded : before.mapped();
}

void UseCounter::Add(const std::string& uuid, const governor::Meter::Use& use, const Whose& whose) {
  CardSeconds& card = cards_[uuid];
  for (const auto& [pid, part] : use.parts) {
    const UsedSeconds used = SecondsOf(part, use.span_ns);
    card.busy += used.busy;
    const Owner owner = OwnerOf(pid, whose);
    if (owner == kUnmanaged) {
      card.unmanaged += used.busy;
    } else if (owner != kEnded) {
      UsedSeconds& all = card.containers[owner];
      all.busy += used.busy;
      all.waiting += used.waiting;
    }
  }
}

void UseCounter::Keep(const std::set<std::string>& ids) {
  for (auto& [uuid, card] : cards_) {
    std::erase_if(card.containers, [&](const auto& one) { return !ids.contains(one.first); });
  }
  std::erase_if(owners_, [&](const auto& one) { return !ids.contains(one.second); });
}

}  // namespace cgpu::exporter
