#include "sim/model/page_tree.h"

#include <algorithm>
#include <iterator>

#include "rm/vidmem.h"

namespace cgpu::sim {
namespace {

// allocation_size_pascal(): every table is a page, but one of 64 KiB pages is 32 entries of 8.
constexpr rm::NvU64 kTableBytes = 4096;
constexpr rm::NvU64 kBigTableBytes = 256;

// index_bits_pascal() and index_bits_hopper(), added up from the last table.
constexpr unsigned kLeafShift = 21;
constexpr std::array<unsigned, 4> kDirectoryShifts = {29, 38, 47, 56};

}  // namespace

NeedCounts::Counts::iterator NeedCounts::Split(rm::NvU64 at) {
  const auto next = counts_.lower_bound(at);
  if (next != counts_.end() && next->first == at) {
    return next;
  }
  const std::uint32_t before = next == counts_.begin() ? 0 : std::prev(next)->second;
  return counts_.emplace_hint(next, at, before);
}

void NeedCounts::Join(rm::NvU64 first, rm::NvU64 end) {
  for (auto at = counts_.lower_bound(first); at != counts_.end() && at->first <= end;) {
    const std::uint32_t before = at == counts_.begin() ? 0 : std::prev(at)->second;
    at = at->second == before ? counts_.erase(at) : std::next(at);
  }
}

rm::NvU64 NeedCounts::Add(rm::NvU64 first, rm::NvU64 last) {
  const auto end = Split(last + 1);
  rm::NvU64 fresh = 0;
  for (auto at = Split(first); at != end; ++at) {
    if (at->second++ == 0) {
      fresh += std::next(at)->first - at->first;
    }
  }
  Join(first, last + 1);
  return fresh;
}

rm::NvU64 NeedCounts::Remove(rm::NvU64 first, rm::NvU64 last) {
  const auto end = Split(last + 1);
  rm::NvU64 gone = 0;
  for (auto at = Split(first); at != end; ++at) {
    if (--at->second == 0) {
      gone += std::next(at)->first - at->first;
    }
  }
  Join(first, last + 1);
  return gone;
}

PageTree::PageTree(GpuMemory& memory, bool hopper) : memory_(memory), directories_(hopper ? 4 : 3) {
  for (std::size_t i = 0; i < directories_; ++i) {
    levels_.at(i).shift = kDirectoryShifts.at(i);
  }
  small_.shift = kLeafShift;
  big_.shift = kLeafShift;
  Take(kTableBytes);
}

PageTree::~PageTree() {
  memory_.Return(gpu_bytes_);
}

// uvm_page_tree_get_ptes(): the tables on the way down to the one whose entries the pages are.
rm::NvU64 PageTree::Walk(rm::NvU64 base, rm::NvU64 length, rm::NvU64 page_size, bool add) {
  const rm::NvU64 last = base + length - 1;
  const auto count = [&](Level& level) {
    const rm::NvU64 from = base >> level.shift;
    const rm::NvU64 to = last >> level.shift;
    return add ? level.needed.Add(from, to) : level.needed.Remove(from, to);
  };
  rm::NvU64 bytes = 0;
  // page_table_depth_ampere(): 512 MiB pages are entries of the directory above.
  for (std::size_t i = page_size == rm::kPage512M ? 1 : 0; i < directories_; ++i) {
    bytes += count(levels_.at(i)) * kTableBytes;
  }
  if (page_size == rm::kPage4K) {
    bytes += count(small_) * kTableBytes;
  } else if (page_size == rm::kPageBig) {
    bytes += count(big_) * kBigTableBytes;
  }
  return bytes;
}

void PageTree::Add(rm::NvU64 base, rm::NvU64 length, rm::NvU64 page_size) {
  Take(Walk(base, length, page_size, true));
}

void PageTree::Remove(rm::NvU64 base, rm::NvU64 length, rm::NvU64 page_size) {
  Return(Walk(base, length, page_size, false));
}

void PageTree::Split(rm::NvU64 base, rm::NvU64 length, rm::NvU64 at, rm::NvU64 page_size) {
  Add(base, at - base, page_size);  // in this order: all of the tables are there
  Add(at, base + length - at, page_size);
  Remove(base, length, page_size);
}

void PageTree::Take(rm::NvU64 bytes) {
  const rm::NvU64 room = std::min(bytes, memory_.Free() / kBigTableBytes * kBigTableBytes);
  if (memory_.Take(room)) {
    gpu_bytes_ += room;
    system_bytes_ += bytes - room;
  } else {
    system_bytes_ += bytes;
  }
}

void PageTree::Return(rm::NvU64 bytes) {
  // Which of them lie in system memory is not kept: the latest, which the full GPU had no room
  // for, are taken to go first.
  const rm::NvU64 system = std::min(bytes, system_bytes_);
  system_bytes_ -= system;
  gpu_bytes_ -= bytes - system;
  memory_.Return(bytes - system);
}

}  // namespace cgpu::sim
