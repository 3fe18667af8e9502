#include "boundary/dma_tracker.h"

#include <algorithm>

namespace cgpu::boundary {

void DmaTracker::AddRange(ledger::ObjectRef range, std::uint64_t space, ledger::Gpu gpu,
                          RangeTables tables) {
  ranges_[range.serial] = Range{range.handle, space, gpu, tables, {}, {}};
}

std::uint64_t DmaTracker::Space::Bytes() const {
  return tables.Bytes() + more.Bytes() +
         (tables.Bytes() > 0 ? PageTables::kTableBytes : 0);  // the root
}

void DmaTracker::Count(const Range& range, const DmaMapping& mapping) {
  if (range.tables != RangeTables::kOfMappings) {
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
  if (range.tables != RangeTables::kOfMappings || space == spaces_.end()) {
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

AddressRanges DmaTracker::Unkept(const Range& range, const DmaMapping& mapping) {
  constexpr std::uint64_t kUnit = std::uint64_t{1} << PageTables::kLowestReach;
  std::uint64_t at = mapping.start / kUnit * kUnit;
  const std::uint64_t end = (mapping.end - 1) / kUnit * kUnit + kUnit;
  AddressRanges unkept;
  auto kept = range.kept.upper_bound(at);
  if (kept != range.kept.begin()) {
    at = std::max(at, std::prev(kept)->second);
  }
  while (at < end) {
    const std::uint64_t until = kept == range.kept.end() ? end : std::min(end, kept->first);
    if (at < until) {
      unkept.push_back({at, until});
    }
    if (kept == range.kept.end()) {
      break;
    }
    at = kept->second;
    ++kept;
  }
  return unkept;
}

void DmaTracker::Keep(Range& range, const AddressRange& part) {
  spaces_[{range.gpu, range.space}].tables.Map(part.start, part.end);
  range.kept[part.start] = part.end;
  ++kept_;
}

void DmaTracker::DropKept(Range& range) {
  const auto space = spaces_.find({range.gpu, range.space});
  for (const auto& [start, end] : range.kept) {
    space->second.tables.Unmap(start, end);
  }
  kept_ -= range.kept.size();
  if (!range.kept.empty() && space->second.Bytes() == 0) {
    spaces_.erase(space);
  }
  range.kept.clear();
}

std::uint64_t DmaTracker::Need(std::uint64_t range, const DmaMapping& mapping, bool placed) {
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || found->second.tables == RangeTables::kCovered) {
    return 0;
  }
  if (!placed) {
    const std::uint64_t most = PageTables::MostBytes(mapping.end - mapping.start);
    return (mapping.both ? 2 * most : most) + PageTables::kTableBytes;
  }
  const std::uint64_t before = Bytes(found->second.gpu);
  if (found->second.tables == RangeTables::kKept) {
    Range probe{{}, found->second.space, found->second.gpu, RangeTables::kKept, {}, {}};
    for (const AddressRange& part : Unkept(found->second, mapping)) {
      Keep(probe, part);
    }
    const std::uint64_t with = Bytes(found->second.gpu);
    DropKept(probe);
    return with - before;
  }
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
  if (found->second.tables == RangeTables::kKept) {
    for (const AddressRange& part : Unkept(found->second, mapping)) {
      Keep(found->second, part);
    }
  }
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
    DropKept(range->second);
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
