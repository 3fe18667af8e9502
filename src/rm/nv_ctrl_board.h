// Parameters of RM controls about the board: the VBIOS, the InfoROM, the performance state. As in
// nv_ctrl.h.
#ifndef CGPU_RM_NV_CTRL_BOARD_H_
#define CGPU_RM_NV_CTRL_BOARD_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

// ---- ctrl2080/ctrl2080bios.h
inline constexpr NvU32 NV2080_CTRL_BIOS_INFO_INDEX_REVISION = 0x00;
inline constexpr NvU32 NV2080_CTRL_BIOS_INFO_INDEX_OEM_REVISION = 0x01;
struct NV2080_CTRL_BIOS_INFO {
  NvU32 index;
  NvU32 data;
};
static_assert(sizeof(NV2080_CTRL_BIOS_INFO) == 8);
struct NV2080_CTRL_BIOS_GET_INFO_PARAMS {
  NvU32 biosInfoListSize;
  NvP64 biosInfoList;  // embedded pointer, NV2080_CTRL_BIOS_INFO each
};
static_assert(sizeof(NV2080_CTRL_BIOS_GET_INFO_PARAMS) == 16);

// ---- ctrl2080/ctrl2080gpu.h
struct NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS {
  char objectType[3];  // "OEM", "ECC": names are in src/common/nvswitch/kernel/inforom
  NvU8 version;
  NvU8 subversion;
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS) == 5);
struct NV2080_CTRL_GPU_GET_INFOROM_IMAGE_VERSION_PARAMS {
  NvU8 version[16];  // text, such as "G133.0215.00.06"
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_INFOROM_IMAGE_VERSION_PARAMS) == 16);

// ---- ctrl2080/ctrl2080perf.h
struct NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS {  // since 550
  NvU32 currPstate;  // the bit with the number of the state: 1 is P0
};
static_assert(sizeof(NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS) == 4);

// ---- ctrl2080/ctrl2080fb.h
inline constexpr BitField NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE{1, 0};
inline constexpr NvU32 NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_VIDEO_MEMORY = 0;
inline constexpr NvU32 NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_SYSTEM_MEMORY = 1;
inline constexpr BitField NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_WRITE_BACK{2, 2};
inline constexpr BitField NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_INVALIDATE{3, 3};
inline constexpr BitField NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE{4, 4};
inline constexpr NvU32 NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE_FULL_CACHE = 1;
inline constexpr BitField NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FB_FLUSH{5, 5};
struct NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS {
  NvU64 addressArray[500];  // physical addresses; with FLUSH_MODE_FULL_CACHE none are read
  NvU32 addressArraySize;
  NvU32 addressAlign;
  NvU64 memBlockSizeBytes;
  NvU32 flags;
};
static_assert(sizeof(NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS) == 4024);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_CTRL_BOARD_H_
