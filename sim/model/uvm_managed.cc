// Managed memory: the ranges that mmap of the file makes. uvm.c uvm_mmap(), uvm_vm_close_managed().
#include <algorithm>
#include <iterator>

#include "rm/vidmem.h"
#include "sim/model/uvm_model.h"

namespace cgpu::sim {
namespace {

using Managed = std::map<rm::NvU64, UvmManaged>;

// Returns what is left of `span` without [start, end) of `others`, which are in order.
std::vector<UvmSpan> Without(UvmSpan span, const std::vector<UvmSpan>& others) {
  std::vector<UvmSpan> left;
  for (const UvmSpan& other : others) {
    if (other.end <= span.start || other.start >= span.end) {
      continue;
    }
    if (other.start > span.start) {
      left.push_back({span.start, other.start});
    }
    span.start = other.end;
    if (span.start >= span.end) {
      return left;
    }
  }
  left.push_back(span);
  return left;
}

constexpr rm::NvU64 Down(rm::NvU64 value, rm::NvU64 to) {
  return value / to * to;
}
constexpr rm::NvU64 Up(rm::NvU64 value, rm::NvU64 to) {
  return Down(value + to - 1, to);
}

// The pages that map a range whose memory is all on the GPU: as large as their place allows.
void AddSegments(rm::NvU64 start, rm::NvU64 end, std::vector<UvmSegment>* segments) {
  const auto add = [segments](rm::NvU64 from, rm::NvU64 to, rm::NvU64 page) {
    if (from < to) {
      segments->push_back({from, to - from, page});
    }
  };
  const auto ends = [&add](rm::NvU64 from, rm::NvU64 to) {  // within one block
    const rm::NvU64 low = Up(from, rm::kPageBig);
    const rm::NvU64 high = Down(to, rm::kPageBig);
    if (low >= high) {
      add(from, to, rm::kPage4K);
      return;
    }
    add(from, low, rm::kPage4K);
    add(low, high, rm::kPageBig);
    add(high, to, rm::kPage4K);
  };
  const rm::NvU64 low = Up(start, rm::kPageHuge);
  const rm::NvU64 high = Down(end, rm::kPageHuge);
  if (low > high) {
    ends(start, end);
    return;
  }
  ends(start, low);
  add(low, high, rm::kPageHuge);
  ends(high, end);
}

// Returns whether the same address is the same byte of the same file in both.
bool InOnePlace(const UvmMapping& one, const UvmMapping& other) {
  return one.start - one.offset == other.start - other.offset;
}

// Returns whether `one` is of the same file and address space and begins before `other` ends.
bool IsBefore(const UvmMapping& one, const UvmMapping& other) {
  return one.file == other.file && one.owner == other.owner && one.start < other.end;
}

const UvmMapping& KeyOf(const UvmMapping& mapping) {
  return mapping;
}
const UvmMapping& KeyOf(const std::pair<const UvmMapping, std::string>& entry) {
  return entry.first;
}

// Returns the first mapping of the same file and address space that reaches beyond the start of
// `mapping`, or a later one. Those of one address space do not overlap.
template <class Sorted>
auto FirstAt(const Sorted& sorted, const UvmMapping& mapping) {
  UvmMapping first = mapping;
  first.end = 0;
  first.offset = 0;
  first.shared_read_write = false;
  auto at = sorted.lower_bound(first);
  if (at != sorted.begin() && IsBefore(KeyOf(*std::prev(at)), mapping) &&
      KeyOf(*std::prev(at)).end > mapping.start) {
    --at;
  }
  return at;
}

UvmMapping PartOf(UvmMapping mapping, rm::NvU64 start, rm::NvU64 end) {
  mapping.offset += start - mapping.start;
  mapping.start = start;
  mapping.end = end;
  return mapping;
}

bool Overlaps(const Managed& managed, rm::NvU64 start, rm::NvU64 end) {
  const auto next = managed.lower_bound(start);
  if (next != managed.end() && next->first < end) {
    return true;
  }
  return next != managed.begin() && std::prev(next)->first + std::prev(next)->second.length > start;
}

}  // namespace

bool UvmModel::OverlapsManaged(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  return Overlaps(space.managed, base, base + length);
}

bool UvmModel::IsManaged(const UvmSpace& space, rm::NvU64 base, rm::NvU64 length) {
  rm::NvU64 at = base;
  auto range = space.managed.upper_bound(base);
  if (range != space.managed.begin()) {
    --range;
  }
  for (; range != space.managed.end() && range->first <= at && at < base + length; ++range) {
    at = std::max(at, range->first + range->second.length);
  }
  return at >= base + length;
}

std::set<std::uint32_t> UvmModel::OwnersOf(FileId file) const {
  std::set<std::uint32_t> owners;
  const auto found = spaces_.find(file);
  if (found != spaces_.end()) {
    for (const auto& [base, range] : found->second.managed) {
      if (!range.zombie) {
        owners.insert(range.owner.tgid);
      }
    }
  }
  return owners;
}

void UvmModel::Settle(const UvmSeen& seen) {
  KeepRefused(seen);
  for (auto& [file, space] : spaces_) {
    DropUnseen(file, space, seen);
  }
  for (const UvmMapping& mapping : seen.mappings) {
    for (const UvmSpan& span : Without({mapping.start, mapping.end}, RefusedIn(mapping))) {
      AddSeen(PartOf(mapping, span.start, span.end));
    }
  }
  for (auto& [file, space] : spaces_) {
    Recharge(space);
  }
}

// The driver looks at a mapping when it is made, and mprotect(2) asks no driver. So what was
// refused stays refused as long as it is there, though its rights change and the kernel cuts it, or
// shows it as one with its neighbours.
void UvmModel::KeepRefused(const UvmSeen& seen) {
  if (refused_.empty()) {
    return;
  }
  const std::set<UvmMapping> mapped(seen.mappings.begin(), seen.mappings.end());
  std::map<UvmMapping, std::string> kept;
  for (const auto& [refused, why] : refused_) {
    if (!seen.LookedAt(refused.owner.tgid)) {
      kept.emplace(refused, why);
      continue;
    }
    for (auto at = FirstAt(mapped, refused); at != mapped.end() && IsBefore(*at, refused); ++at) {
      if (InOnePlace(refused, *at)) {
        kept.emplace(
            PartOf(refused, std::max(refused.start, at->start), std::min(refused.end, at->end)),
            why);
      }
    }
  }
  refused_ = std::move(kept);
}

// Returns the parts of the mapping that were refused, in order.
std::vector<UvmSpan> UvmModel::RefusedIn(const UvmMapping& mapping) const {
  std::vector<UvmSpan> refused;
  for (auto at = FirstAt(refused_, mapping); at != refused_.end() && IsBefore(at->first, mapping);
       ++at) {
    if (InOnePlace(at->first, mapping)) {
      refused.push_back({at->first.start, at->first.end});
    }
  }
  return refused;
}

// Unmapped from an address space that lives: gone, and so with one whose last process executes
// another program. With that process: kept where the file is shared between processes, until
// CLEAN_UP_ZOMBIE_RESOURCES or the last close.
void UvmModel::DropUnseen(FileId file, UvmSpace& space, const UvmSeen& seen) {
  Managed kept;
  for (const auto& [base, range] : space.managed) {
    const bool alive = seen.alive.contains(range.owner);
    if (range.zombie || !seen.LookedAt(range.owner.tgid) || seen.unseen.contains(range.owner) ||
        (!alive && seen.keeps_ended)) {
      kept.emplace(base, range);
      continue;
    }
    if (!alive) {
      if (space.Sharing() && !seen.executed.contains(range.owner)) {
        kept.emplace(base, range).first->second.zombie = true;
      }
      continue;
    }
    for (const UvmMapping& mapping : seen.mappings) {
      const rm::NvU64 start = std::max(base, mapping.start);
      const rm::NvU64 end = std::min(base + range.length, mapping.end);
      if (mapping.file == file && mapping.owner == range.owner && start < end &&
          mapping.start == mapping.offset) {
        kept.emplace(start, range).first->second.length = end - start;
      }
    }
  }
  space.managed = std::move(kept);
}

void UvmModel::AddSeen(const UvmMapping& mapping) {
  UvmSpace* space = Find(mapping.file);
  const char* why = nullptr;
  if (space == nullptr) {
    why = "not initialised";
  } else if (!space->Sharing() && mapping.owner.tgid != space->tgid) {
    why = "other process";
  } else if (mapping.start != mapping.offset) {
    why = "address is not the offset";
  } else if (!mapping.shared_read_write) {
    why = "not shared and writable";
  }
  if (why != nullptr) {
    refused_.emplace(mapping, why);
    return;
  }
  // Neighbouring mappings of a process look like one here.
  std::vector<UvmSpan> known;
  for (const auto& [base, range] : space->managed) {
    if (!range.zombie && range.owner == mapping.owner) {
      known.push_back({base, base + range.length});
    }
  }
  for (const UvmSpan& span : Without({mapping.start, mapping.end}, known)) {
    const auto range = space->ranges.find(span.start);
    if (range != space->ranges.end() && range->second.length == span.end - span.start &&
        (range->second.kind == UvmRangeKind::kSemaphorePool ||
         range->second.kind == UvmRangeKind::kDeviceP2p)) {
      continue;  // the processor's view of a range that an ioctl made
    }
    if (CheckFree(*space, span.start, span.end - span.start) != rm::NV_OK) {
      refused_.emplace(PartOf(mapping, span.start, span.end), "address in use");
      continue;
    }
    UvmManaged& added = space->managed[span.start];
    added.length = span.end - span.start;
    added.owner = mapping.owner;
  }
}

void UvmModel::CleanUpZombies(UvmSpace& space) {
  std::erase_if(space.managed, [](const auto& entry) { return entry.second.zombie; });
  Recharge(space);
}

// All of it counts as being on the first GPU of the space, in the blocks of 2 MiB that the driver
// takes from a GPU (uvm_pmm_gpu.c): no program of the simulation touches it and makes it move.
void UvmModel::Recharge(UvmSpace& space) {
  Uncharge(space);
  if (space.managed.empty() || space.order.empty()) {
    return;
  }
  const int gpu = space.order.front();
  UvmResident& resident = space.resident;
  resident.gpu = gpu;
  NeedCounts blocks;
  rm::NvU64 bytes = 0;
  for (const auto& [base, range] : space.managed) {
    const rm::NvU64 last = base + range.length - 1;
    bytes += blocks.Add(base / rm::kPageHuge, last / rm::kPageHuge) * rm::kPageHuge;
    AddSegments(base, base + range.length, &resident.segments);
  }
  GpuMemory& memory = driver_.Memory(gpu);
  const rm::NvU64 room = std::min(bytes, Down(memory.Free(), rm::kPageHuge));
  if (memory.Take(room)) {
    resident.bytes = room;
  }
  resident.overcommit = bytes - resident.bytes;
  if (UvmGpuVaSpace* vaspace = VaSpaceOf(space, gpu)) {
    for (const UvmSegment& segment : resident.segments) {
      vaspace->tree.Add(segment.base, segment.length, segment.page_size);
    }
  } else {
    resident.segments.clear();
  }
}

void UvmModel::Uncharge(UvmSpace& space) {
  UvmResident& resident = space.resident;
  if (resident.gpu < 0) {
    return;
  }
  if (UvmGpuVaSpace* vaspace = VaSpaceOf(space, resident.gpu)) {
    for (const UvmSegment& segment : resident.segments) {
      vaspace->tree.Remove(segment.base, segment.length, segment.page_size);
    }
  }
  driver_.Memory(resident.gpu).Return(resident.bytes);
  resident = UvmResident{};
}

}  // namespace cgpu::sim
