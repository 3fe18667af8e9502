// The indices of NV2080_CTRL_CMD_FB_GET_INFO and FB_GET_INFO_V2.
//
// From NVIDIA/open-gpu-kernel-modules 580.95.05
// src/common/sdk/nvidia/inc/ctrl/ctrl2080/ctrl2080fb.h; 550.163.01 has the same ones up to
// IS_ZERO_FB. Sizes are in KiB.
#ifndef CGPU_RM_FB_INFO_H_
#define CGPU_RM_FB_INFO_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE = 0x05;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE = 0x07;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE = 0x08;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE = 0x09;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE = 0x0a;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_RAM_TYPE = 0x0d;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_BANK_COUNT = 0x0e;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_HEAP_BASE_KB = 0x11;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB = 0x12;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_BASE_KB = 0x13;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE = 0x16;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE = 0x1d;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_HEAP_START = 0x1e;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_BAR1_MAX_CONTIGUOUS_AVAIL_SIZE = 0x1f;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE = 0x20;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_PROTECTED_MEM_SIZE_TOTAL_KB = 0x33;
inline constexpr NvU32 NV2080_CTRL_FB_INFO_INDEX_PROTECTED_MEM_SIZE_FREE_KB = 0x34;

}  // namespace cgpu::rm

#endif  // CGPU_RM_FB_INFO_H_
