// ManagedTracker: charges that are given back only because UVM says so.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "boundary/managed_tracker.h"

namespace cgpu::boundary {

void ManagedTracker::DoubtGone(const SeenByWitness& seen) {
  for (const auto& [witness, said] : seen) {
    if (said.state == Seen::State::kGone && spaces_.contains(witness)) {
      DoubtAll(witness);
    }
  }
}

// Doubts all charges. The calls that a gone address space waited for are over, and their result is
// unknown. A watched mapping counts, too, until UVM is asked; the limit does not apply to it.
void ManagedTracker::DoubtAll(Witness witness) {
  Space& space = spaces_.at(witness);
  const auto take = [&](const Mapping& mapping) {
    const bool within = mapping.claim.witness == witness;
    if (within) {
      space.counted = Union(space.counted, {mapping.claim.range});
    }
    return within;
  };
  std::erase_if(over_, take);
  std::erase_if(now_, [&](const auto& entry) { return take(entry.second); });
  space.gone = true;
  space.doubted = space.counted;
}

void ManagedTracker::CountShown(Space& space, const AddressRanges& shown) const {
  const AddressRanges unmapped = Without(space.counted, shown);
  space.doubted = Intersection(unmapped, contested_);
  space.counted = Union(Intersection(space.counted, shown), space.doubted);
}

bool ManagedTracker::HasDoubts() const {
  return std::ranges::any_of(spaces_, [](const auto& entry) {
    return entry.second.gone || !entry.second.doubted.empty();
  });
}

// Cuts the ranges wherever the number of charged or doubted address spaces changes.
std::vector<ManagedTracker::Doubt> ManagedTracker::Doubts() const {
  struct Change {
    long charged = 0;
    long doubted = 0;
    long mapping = 0;
  };
  std::map<std::uint64_t, Change> changes;
  const auto add = [&](const AddressRanges& ranges, long Change::* what) {
    for (const AddressRange& range : ranges) {
      ++(changes[range.start].*what);
      --(changes[range.end].*what);
    }
  };
  for (const auto& [witness, space] : spaces_) {
    add(space.counted, &Change::charged);
    add(space.doubted, &Change::doubted);
  }
  for (const auto& [thread, mapping] : now_) {
    add({mapping.claim.range}, &Change::mapping);
  }
  std::vector<Doubt> doubts;
  Change now;
  for (auto at = changes.begin(); at != changes.end(); ++at) {
    now.charged += at->second.charged;
    now.doubted += at->second.doubted;
    now.mapping += at->second.mapping;
    if (now.doubted > 0 && now.mapping == 0) {
      doubts.push_back({{at->first, std::next(at)->first},
                        static_cast<std::size_t>(now.charged),
                        static_cast<std::size_t>(now.doubted)});
    }
  }
  return doubts;
}

void ManagedTracker::Resolve(const std::vector<std::pair<Doubt, std::size_t>>& holders) {
  const Processes before = Payers();
  AddressRanges freed;
  AddressRanges contested;
  AddressRanges settled;
  for (const auto& [doubt, held] : holders) {
    if (doubt.charged - doubt.doubted >= held) {
      freed.push_back(doubt.range);
      (held == 0 ? settled : contested).push_back(doubt.range);
    }
  }
  freed = Ordered(std::move(freed));
  contested_ =
      Union(Without(contested_, Ordered(std::move(settled))), Ordered(std::move(contested)));
  for (auto& [witness, space] : spaces_) {
    space.counted = Without(space.counted, Intersection(space.doubted, freed));
    space.doubted = Without(space.doubted, freed);
    if (space.gone && space.counted.empty()) {
      released_.push_back(witness);
    }
  }
  std::erase_if(
      spaces_, [](const auto& entry) { return entry.second.gone && entry.second.counted.empty(); });
  (void)Recharge(before, {});
}

}  // namespace cgpu::boundary
