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
      AddCounted(space, {mapping.claim.range});
    }
    return within;
  };
  std::erase_if(over_, take);
  std::erase_if(now_, [&](const auto& entry) { return take(entry.second); });
  space.gone = true;
  AddDoubted(space, std::exchange(space.counted, {}));
  space.contested = {};
}

// Each element of `doubted` is a part of the one before.
void ManagedTracker::AddDoubted(Space& space, AddressRanges ranges) {
  for (AddressRanges& one : space.doubted) {
    AddressRanges more = Intersection(one, ranges);
    one = Union(one, ranges);
    ranges = std::move(more);
  }
  if (!ranges.empty()) {
    space.doubted.push_back(std::move(ranges));
  }
}

void ManagedTracker::AddCounted(Space& space, const AddressRanges& ranges) {
  AddDoubted(space, Intersection(space.contested, ranges));
  space.contested = Without(space.contested, ranges);
  space.counted = Union(space.counted, ranges);
}

// The kernel takes a mapping out of what is shown before UVM hears of it (Linux 6.12 mm/vma.c,
// vms_complete_munmap_vmas(); before, mm/mmap.c, do_vmi_align_munmap()).
void ManagedTracker::CountShown(Space& space, const AddressRanges& shown) {
  AddDoubted(space, Without(space.counted, shown));
  space.contested = Intersection(space.contested, shown);
  space.counted = Intersection(space.counted, shown);
}

// Counts once what both count, but keeps both charges where one of them is contested.
void ManagedTracker::Merge(Space& space, Space& other) {
  const AddressRanges both = Intersection(space.counted, other.counted);
  const AddressRanges contested = Union(space.contested, other.contested);
  AddDoubted(space, Intersection(contested, both));
  space.contested = Union(Without(contested, both), Intersection(space.contested, other.contested));
  for (AddressRanges& ranges : other.doubted) {
    AddDoubted(space, std::move(ranges));
  }
  space.counted = Union(space.counted, other.counted);
  space.programs.merge(other.programs);
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
    for (const AddressRanges& ranges : space.doubted) {
      add(ranges, &Change::charged);
      add(ranges, &Change::doubted);
    }
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
  AddressRanges held;  // of those
  for (const auto& [doubt, holders_there] : holders) {
    if (doubt.charged - doubt.doubted >= holders_there) {
      freed.push_back(doubt.range);
      if (holders_there > 0) {
        held.push_back(doubt.range);
      }
    }
  }
  freed = Ordered(std::move(freed));
  held = Ordered(std::move(held));
  for (auto& [witness, space] : spaces_) {
    for (AddressRanges& ranges : space.doubted) {
      ranges = Without(ranges, freed);
    }
    std::erase_if(space.doubted, [](const AddressRanges& ranges) { return ranges.empty(); });
    space.contested = Union(Without(space.contested, freed), Intersection(space.counted, held));
  }
  std::erase_if(spaces_, [&](const auto& entry) {
    const auto& [witness, space] = entry;
    const bool over = space.doubted.empty() && (space.gone || IsIdle(witness, space));
    if (over) {
      released_.push_back(witness);
    }
    return over;
  });
  (void)Recharge(before, {});
}

std::vector<ChargedRange> ManagedTracker::Charges() const {
  std::map<std::uint64_t, long> changes;
  const auto add = [&](const AddressRanges& ranges) {
    for (const AddressRange& range : ranges) {
      ++changes[range.start];
      --changes[range.end];
    }
  };
  for (const auto& [witness, space] : spaces_) {
    add(space.counted);
    std::ranges::for_each(space.doubted, add);
  }
  for (const Mapping* mapping : Waiting()) {
    if (!mapping->watched) {
      add({mapping->claim.range});
    }
  }
  std::vector<ChargedRange> charges;
  long now = 0;
  for (auto at = changes.begin(); at != changes.end(); ++at) {
    now += at->second;
    if (now > 0) {
      charges.push_back({{at->first, std::next(at)->first}, static_cast<std::size_t>(now)});
    }
  }
  return charges;
}

}  // namespace cgpu::boundary
