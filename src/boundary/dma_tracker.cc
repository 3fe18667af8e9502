#include "boundary/dma_tracker.h"

#include <algorithm>

namespace cgpu::boundary {

void DmaTracker::AddRange(ledger::ObjectRef range, std::uint64_t space, ledger::Gpu gpu,
                          bool covered) {
  ranges_[range.serial] = Range{range.handle, space, gpu, covered, {}};
}

std::uint64_t DmaTracker::Space::Bytes() const {
  return tables.Bytes() + more.Bytes() +
         (tables.Bytes() > 0 ? PageTables::kTableBytes : 0);  // the root
}

void DmaTracker::Count(const Range& range, const DmaMapping& mapping) {
  if (range.covered) {
    return;
  }
  Space& space = spaces_[{range.gpu, range.space}];
  space.tables.Map(mapping.start, mapping.end);
  if (mapping.both) {
    space.more.Map(mapping.start, mapping.end);
  }
}

void DmaTracker::Uncount(const Range& range, const DmaMapping& mapping) {
  const auto space = spaces_.find({range.gpu, range.space});
  if (range.covered || space == spaces_.end()) {
    return;
  }
  space->second.tables.Unmap(mapping.start, mapping.end);
  if (mapping.both) {
    space->second.more.Unmap(mapping.start, mapping.end);
  }
  if (space->second.Bytes() == 0) {
    spaces_.erase(space);
  }
}

std::uint64_t DmaTracker::Need(std::uint64_t range, const DmaMapping& mapping, bool placed) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || found->second.covered) {
    return 0;
  }
  if (!placed) {
    const std::uint64_t most = PageTables::MostBytes(mapping.end - mapping.start);
    return (mapping.both ? 2 * most : most) + PageTables::kTableBytes;
  }
  const std::uint64_t before = Bytes(found->second.gpu);
  Count(found->second, mapping);
  const std::uint64_t after = Bytes(found->second.gpu);
  Uncount(found->second, mapping);
  return after - before;
}

void DmaTracker::Add(std::uint64_t range, const DmaMapping& mapping) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end()) {
    return;
  }
  Count(found->second, mapping);
  found->second.mappings.emplace(mapping.start, mapping);
  mapped_in_.emplace(mapping.memory, range, mapping.start);
}

void DmaTracker::Erase(std::uint64_t serial, Range& range, Mappings::iterator mapping) {
  Uncount(range, mapping->second);
  if (const auto entry = mapped_in_.find({mapping->second.memory, serial, mapping->first});
      entry != mapped_in_.end()) {
    mapped_in_.erase(entry);
  }
  range.mappings.erase(mapping);
}

void DmaTracker::Remove(std::uint64_t range, ledger::Handle device, std::uint64_t start,
                        std::uint64_t length) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end()) {
    return;
  }
  auto& mappings = found->second.mappings;
  if (length == 0) {
    const auto [from, to] = mappings.equal_range(start);
    const auto mapping =
        std::find_if(from, to, [&](const auto& entry) { return entry.second.device == device; });
    if (mapping != to) {
      Erase(range, found->second, mapping);
    }
    return;
  }
  const std::uint64_t end = start + std::min(length, ~start);
  std::vector<DmaMapping> rests;
  auto at = mappings.lower_bound(start);
  if (at != mappings.begin()) {
    --at;  // it may reach into the range; mappings do not overlap (gpu_vaspace.c)
  }
  while (at != mappings.end() && at->first < end) {
    const auto mapping = at++;
    const DmaMapping old = mapping->second;
    if (old.device != device || old.end <= start) {
      continue;
    }
    Erase(range, found->second, mapping);
    DmaMapping rest = old;
    if (old.start < start) {
      rest.end = start;
      rests.push_back(rest);
    }
    if (old.end > end) {
      rest = old;
      rest.start = end;
      rests.push_back(rest);
    }
  }
  for (const DmaMapping& rest : rests) {
    Add(range, rest);
  }
}

void DmaTracker::Forget(std::uint64_t object) {
  auto in = mapped_in_.lower_bound({object, 0, 0});
  while (in != mapped_in_.end() && std::get<0>(*in) == object) {
    const auto [memory, serial, start] = *in;
    Range& range = ranges_.at(serial);
    auto mapping = range.mappings.find(start);
    while (mapping->second.memory != memory) {
      ++mapping;
    }
    Erase(serial, range, mapping);
    in = mapped_in_.lower_bound({object, 0, 0});
  }
  if (const auto range = ranges_.find(object); range != ranges_.end()) {
    while (!range->second.mappings.empty()) {
      Erase(object, range->second, range->second.mappings.begin());
    }
    ranges_.erase(range);
  }
}

std::vector<ledger::ObjectRef> DmaTracker::Objects() const {
  std::vector<ledger::ObjectRef> objects;
  std::uint64_t last = 0;
  for (const auto& [serial, range] : ranges_) {
    objects.push_back({range.handle, serial});
    for (const auto& [start, mapping] : range.mappings) {
      if (mapping.memory != last) {
        objects.push_back({mapping.handle, mapping.memory});
      }
      last = mapping.memory;
    }
  }
  return objects;
}

std::uint64_t DmaTracker::Bytes(ledger::Gpu gpu) const {
  std::uint64_t bytes = 0;
  for (auto space = spaces_.lower_bound({gpu, 0});
       space != spaces_.end() && space->first.first == gpu; ++space) {
    bytes += space->second.Bytes();
  }
  return bytes;
}

}  // namespace cgpu::boundary
