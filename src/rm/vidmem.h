// How much memory of the card an allocation takes.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 and 580.95.05, which agree:
// src/nvidia/src/kernel/gpu/mem_mgr/mem_mgr.c memmgrDeterminePageSize_IMPL (page size),
// gpu/mem_mgr/arch/maxwell/mem_mgr_gm107.c memmgrAllocDetermineAlignment_GM107 (size rounded to the
// page), mem_mgr/video_mem.c _vidmemPmaAllocate (64 KiB are the least the page allocator hands
// out).
#ifndef CGPU_RM_VIDMEM_H_
#define CGPU_RM_VIDMEM_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

inline constexpr NvU64 kPage4K = NvU64{4} << 10;
inline constexpr NvU64 kPageBig = NvU64{64} << 10;
inline constexpr NvU64 kPageHuge = NvU64{2} << 20;
inline constexpr NvU64 kPage512M = NvU64{512} << 20;
inline constexpr NvU64 kPage256G = NvU64{256} << 30;
// The least the card's memory is handed out in.
inline constexpr NvU64 kVidmemGranularity = kPageBig;
// With compression asked for, sizes are rounded to the card's compression page. The driver gets
// that size from the card's firmware and tells it to nobody; this is the largest of the known ones.
inline constexpr NvU64 kCompressionPage = NvU64{256} << 10;

// What of an allocation request decides its size. From NV_MEMORY_ALLOCATION_PARAMS or
// NVOS32_PARAMETERS.data.AllocSize.
struct VidmemRequest {
  NvU64 size = 0;
  NvU32 attr = 0;
  NvU32 attr2 = 0;
  NvU32 flags = 0;
  NvU64 alignment = 0;
};

// The page size the driver picks.
[[nodiscard]] NvU64 VidmemPageSize(NvU64 size, NvU32 attr, NvU32 attr2);

// Bytes of the card an allocation by a user's client takes: what the free memory shrinks by, and so
// what is charged. 0 for size 0 (which the driver refuses); ~0 when rounding overflows.
//
// It is also an upper bound of the size the driver writes back, which is rounded to the page alone:
// 4 KiB pages are reported as asked and still take 64 KiB.
//
// An allocation at a fixed address is rounded up to the *requested* alignment by the driver while
// the size it writes back is not: charge by this function and not by what the driver answers.
[[nodiscard]] NvU64 RoundVidmem(const VidmemRequest& request);
[[nodiscard]] NvU64 RoundVidmem(NvU64 size, NvU32 attr, NvU32 attr2);

// The size the driver writes back for such a request.
[[nodiscard]] NvU64 ReportedVidmemSize(NvU64 size, NvU32 attr, NvU32 attr2);

}  // namespace cgpu::rm

#endif  // CGPU_RM_VIDMEM_H_
