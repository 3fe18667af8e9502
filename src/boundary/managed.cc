#include "boundary/managed.h"

#include <algorithm>
#include <optional>

#include "boundary/page_tables.h"

namespace cgpu::boundary {
namespace {

// Constants of Linux on x86-64 (asm-generic/mman-common.h, linux/mman.h, uapi).
constexpr std::uint64_t kProtReadWrite = 0x3;
constexpr std::uint64_t kMapShared = 0x1;  // MAP_SHARED and MAP_SHARED_VALIDATE have this bit
constexpr std::uint64_t kMapFixed = 0x10;
constexpr std::uint64_t kMapAnonymous = 0x20;
constexpr std::uint64_t kMapFixedNoReplace = 0x100000;
constexpr std::uint64_t kPage = 4096;
// Limit of user addresses with five levels of page tables.
constexpr std::uint64_t kMaxAddress = std::uint64_t{1} << 56;
// UVM_VA_BLOCK_SIZE and UVM_CHUNK_SIZE_MAX (kernel-open/nvidia-uvm/uvm_va_block_types.h,
// uvm_pmm_gpu.h)
constexpr std::uint64_t kBlock = std::uint64_t{2} << 20;

// Returns the whole pages of a mapping; nothing where the kernel makes none.
std::optional<AddressRange> PagesAt(std::uint64_t start, std::uint64_t length) {
  if (start % kPage != 0 || length == 0 || start >= kMaxAddress || length > kMaxAddress - start) {
    return std::nullopt;
  }
  return AddressRange{start, (start + length + kPage - 1) / kPage * kPage};
}

}  // namespace

MmapKind JudgeMmap(const MmapArgs& args, bool uvm_file, AddressRange* range) {
  if ((args.flags & kMapShared) == 0 || (args.flags & kMapAnonymous) != 0 ||
      (args.prot & kProtReadWrite) != kProtReadWrite) {
    return MmapKind::kHarmless;
  }
  const std::uint64_t offset = args.offset;
  const auto pages = PagesAt(offset, args.length);
  if (offset == 0 || !pages) {
    return MmapKind::kHarmless;
  }
  *range = *pages;
  if ((args.flags & (kMapFixed | kMapFixedNoReplace)) != 0) {
    return args.address == offset ? MmapKind::kManaged : MmapKind::kHarmless;
  }
  // The kernel rounds a hint to a page, up or down.
  const bool hinted = args.address > offset - kPage && args.address < offset + kPage;
  return uvm_file || hinted ? MmapKind::kManaged : MmapKind::kSuspect;
}

MmapKind JudgeMremap(std::uint64_t new_address, std::uint64_t new_length, AddressRange* range) {
  const auto pages = PagesAt(new_address, new_length);
  if (!pages) {
    return MmapKind::kHarmless;
  }
  *range = *pages;
  return MmapKind::kSuspect;
}

std::uint64_t ManagedBytes(std::vector<AddressRange> ranges) {
  std::ranges::sort(ranges);
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
