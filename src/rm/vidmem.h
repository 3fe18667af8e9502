// Computes how much GPU memory an allocation takes.
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
// Smallest unit, in bytes, in which the GPU's memory is given out.
inline constexpr NvU64 kVidmemGranularity = kPageBig;
// Unit, in bytes, to which sizes are rounded when compression is asked for: the GPU's compression
// page. The driver gets its size from the GPU's firmware and does not report it; this is the
// largest known size.
inline constexpr NvU64 kCompressionPage = NvU64{256} << 10;

// The fields of an allocation request that decide its size, from NV_MEMORY_ALLOCATION_PARAMS or
// NVOS32_PARAMETERS.data.AllocSize.
struct VidmemRequest {
  NvU64 size = 0;
  NvU32 attr = 0;
  NvU32 attr2 = 0;
  NvU32 flags = 0;
  NvU64 alignment = 0;
};

// Returns the page size that the driver picks.
[[nodiscard]] NvU64 VidmemPageSize(NvU64 size, NvU32 attr, NvU32 attr2);

// Returns the bytes of the GPU that an allocation by a user's client takes. The free memory shrinks
// by this number, and cgpu charges it. Returns 0 for size 0 (which the driver refuses); ~0 when
// rounding overflows.
//
// It is also an upper limit of the size that the driver writes back, which is rounded to the page
// alone: 4 KiB pages are reported as asked and still take 64 KiB.
//
// The driver rounds an allocation at a fixed address up to the *requested* alignment, but not the
// size that it writes back: charge by this function and not by the driver's answer.
[[nodiscard]] NvU64 RoundVidmem(const VidmemRequest& request);
[[nodiscard]] NvU64 RoundVidmem(NvU64 size, NvU32 attr, NvU32 attr2);

// Returns the size that the driver writes back for such a request.
[[nodiscard]] NvU64 ReportedVidmemSize(NvU64 size, NvU32 attr, NvU32 attr2);

}  // namespace cgpu::rm

#endif  // CGPU_RM_VIDMEM_H_
