#include "rm/vidmem.h"

#include <algorithm>
#include <limits>

#include "rm/nv_structs.h"

namespace cgpu::rm {
namespace {

// From nvos.h: the request's alignment counts.
constexpr NvU32 NVOS32_ALLOC_FLAGS_ALIGNMENT_HINT = 0x00000080;

constexpr NvU64 kOverflow = std::numeric_limits<NvU64>::max();

// `unit` need not be a power of two: a requested alignment may be anything.
NvU64 RoundUp(NvU64 value, NvU64 unit) {
  const NvU64 rest = value % unit;
  if (rest == 0) {
    return value;
  }
  const NvU64 add = unit - rest;
  return value > kOverflow - add ? kOverflow : value + add;
}

bool WantsCompression(NvU32 attr) {
  return NVOS32_ATTR_COMPR.Get(attr) != 0;
}

}  // namespace

NvU64 VidmemPageSize(NvU64 size, NvU32 attr, NvU32 attr2) {
  switch (NVOS32_ATTR_PAGE_SIZE.Get(attr)) {
    case NVOS32_ATTR_PAGE_SIZE_4KB:
      return kPage4K;
    case NVOS32_ATTR_PAGE_SIZE_BIG:
      return kPageBig;
    case NVOS32_ATTR_PAGE_SIZE_HUGE:
      switch (NVOS32_ATTR2_PAGE_SIZE_HUGE.Get(attr2)) {
        case NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB:
          return kPage512M;
        case NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB:
          return kPage256G;
        default:
          return kPageHuge;
      }
    default:
      return size >= kPageHuge ? kPageHuge : kPageBig;
  }
}

NvU64 ReportedVidmemSize(NvU64 size, NvU32 attr, NvU32 attr2) {
  const NvU64 page = VidmemPageSize(size, attr, attr2);
  return RoundUp(size, WantsCompression(attr) ? std::max(page, kCompressionPage) : page);
}

NvU64 RoundVidmem(NvU64 size, NvU32 attr, NvU32 attr2) {
  const NvU64 page = std::max(VidmemPageSize(size, attr, attr2), kVidmemGranularity);
  return RoundUp(ReportedVidmemSize(size, attr, attr2), page);
}

NvU64 RoundVidmem(const VidmemRequest& request) {
  const NvU64 rounded = RoundVidmem(request.size, request.attr, request.attr2);
  const bool fixed = (request.flags & NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE) != 0;
  const bool aligned =
      (request.flags & (NVOS32_ALLOC_FLAGS_ALIGNMENT_HINT | NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE)) !=
      0;
  if (!fixed || !aligned || request.alignment <= kVidmemGranularity || rounded == kOverflow) {
    return rounded;
  }
  return RoundUp(rounded, request.alignment);
}

}  // namespace cgpu::rm
