#include "boundary/managed.h"

#include <algorithm>
#include <limits>

#include "boundary/page_tables.h"

namespace cgpu::boundary {
namespace {

// Of Linux on x86-64 (asm-generic/mman-common.h, linux/mman.h, uapi).
constexpr std::uint64_t kProtReadWrite = 0x3;
constexpr std::uint64_t kMapShared = 0x1;  // MAP_SHARED and MAP_SHARED_VALIDATE have this bit
constexpr std::uint64_t kMapFixed = 0x10;
constexpr std::uint64_t kMapAnonymous = 0x20;
constexpr std::uint64_t kMapFixedNoReplace = 0x100000;
constexpr std::uint64_t kPage = 4096;
// No address of a user's with five levels of page tables is above.
constexpr std::uint64_t kMaxAddress = std::uint64_t{1} << 56;
// UVM_VA_BLOCK_SIZE and UVM_CHUNK_SIZE_MAX (kernel-open/nvidia-uvm/uvm_va_block_types.h,
// uvm_pmm_gpu.h)
constexpr std::uint64_t kBlock = std::uint64_t{2} << 20;

}  // namespace

MmapKind JudgeMmap(const MmapArgs& args, bool uvm_file, AddressRange* range) {
  if ((args.flags & kMapShared) == 0 || (args.flags & kMapAnonymous) != 0 ||
      (args.prot & kProtReadWrite) != kProtReadWrite || args.length == 0) {
    return MmapKind::kHarmless;
  }
  const std::uint64_t offset = args.offset;
  if (offset == 0 || offset % kPage != 0 || offset >= kMaxAddress ||
      args.length > kMaxAddress - offset) {
    return MmapKind::kHarmless;
  }
  range->start = offset;
  range->end = (offset + args.length + kPage - 1) / kPage * kPage;
  if ((args.flags & (kMapFixed | kMapFixedNoReplace)) != 0) {
    return args.address == offset ? MmapKind::kManaged : MmapKind::kHarmless;
  }
  // A hint is rounded to a page, up or down.
  const bool hinted = args.address > offset - kPage && args.address < offset + kPage;
  return uvm_file || hinted ? MmapKind::kManaged : MmapKind::kSuspect;
}

MmapKind JudgeMremap(std::uint64_t new_address, std::uint64_t new_length, AddressRange* range) {
  if (new_address % kPage != 0 || new_length == 0 || new_address >= kMaxAddress ||
      new_length > kMaxAddress - new_address) {
    return MmapKind::kHarmless;
  }
  *range = {new_address, (new_address + new_length + kPage - 1) / kPage * kPage};
  return MmapKind::kSuspect;
}

std::uint64_t ManagedBytes(std::vector<AddressRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  PageTables tables;
  std::uint64_t blocks = 0;
  std::uint64_t next_block = 0;  // the first that is not counted yet
  AddressRange merged;
  const auto count = [&] {
    if (merged.end == merged.start) {
      return;
    }
    tables.Map(merged.start, merged.end);
    const std::uint64_t first = std::max(merged.start / kBlock, next_block);
    const std::uint64_t end = (merged.end + kBlock - 1) / kBlock;
    blocks += end > first ? end - first : 0;
    next_block = std::max(next_block, end);
  };
  for (const AddressRange& range : ranges) {
    if (range.start <= merged.end && merged.end != merged.start) {
      merged.end = std::max(merged.end, range.end);
      continue;
    }
    count();
    merged = range;
  }
  count();
  return blocks * kBlock + tables.Bytes();
}

}  // namespace cgpu::boundary
