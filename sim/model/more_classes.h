// Numbers of classes that the driver has and that only the simulation knows, by the vendor's names.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/common/sdk/nvidia/inc/class/*.h and
// src/nvidia/generated/g_allclasses.h; Volta's graphics class is the published one. Blackwell's:
// from 595.45.04.
#ifndef CGPU_SIM_MODEL_MORE_CLASSES_H_
#define CGPU_SIM_MODEL_MORE_CLASSES_H_

#include "rm/nv_types.h"

namespace cgpu::sim {

inline constexpr rm::NvU32 NV01_TIMER = 0x4;
inline constexpr rm::NvU32 FABRIC_MANAGER_SESSION = 0xF;
inline constexpr rm::NvU32 NV0020_GPU_MANAGEMENT = 0x20;
inline constexpr rm::NvU32 NV_CE_UTILS = 0x50;
inline constexpr rm::NvU32 NV0060_SYNC_GPU_BOOST = 0x60;
inline constexpr rm::NvU32 NV04_DISPLAY_COMMON = 0x73;
inline constexpr rm::NvU32 NV01_MEMORY_FRAMEBUFFER_CONSOLE = 0x76;
inline constexpr rm::NvU32 NV04_SOFTWARE_TEST = 0x7D;
inline constexpr rm::NvU32 NV0092_RG_LINE_CALLBACK = 0x92;
inline constexpr rm::NvU32 NV40_DEBUG_BUFFER = 0xDB;
inline constexpr rm::NvU32 NV_MEMORY_EXPORT = 0xE0;
inline constexpr rm::NvU32 NV_IMEX_SESSION = 0xF1;
inline constexpr rm::NvU32 NV01_MEMORY_FLA = 0xF3;
inline constexpr rm::NvU32 NV_MEMORY_FABRIC_IMPORT_V2 = 0xF9;
inline constexpr rm::NvU32 NV_MEMORY_FABRIC_IMPORTED_REF = 0xFB;
inline constexpr rm::NvU32 NV30_GSYNC = 0x30F1;
inline constexpr rm::NvU32 NV40_I2C = 0x402C;
inline constexpr rm::NvU32 NV50_DEFERRED_API_CLASS = 0x5080;
inline constexpr rm::NvU32 G84_PERFBUFFER = 0x844C;
inline constexpr rm::NvU32 MPS_COMPUTE = 0x900E;
inline constexpr rm::NvU32 NV9010_VBLANK_CALLBACK = 0x9010;
inline constexpr rm::NvU32 FERMI_TWOD_A = 0x902D;
inline constexpr rm::NvU32 GF100_CHANNEL_GPFIFO = 0x906F;
inline constexpr rm::NvU32 GF100_DISP_SW = 0x9072;
inline constexpr rm::NvU32 GF100_TIMED_SEMAPHORE_SW = 0x9074;
inline constexpr rm::NvU32 GF100_ZBC_CLEAR = 0x9096;
inline constexpr rm::NvU32 GF100_PROFILER = 0x90CC;
inline constexpr rm::NvU32 NV01_MEMORY_DEVICELESS = 0x90CE;
inline constexpr rm::NvU32 GF100_SUBDEVICE_MASTER = 0x90E6;
inline constexpr rm::NvU32 GF100_SUBDEVICE_INFOROM = 0x90E7;
inline constexpr rm::NvU32 GF100_HDACODEC = 0x90EC;
inline constexpr rm::NvU32 KEPLER_CHANNEL_GPFIFO_A = 0xA06F;
inline constexpr rm::NvU32 KEPLER_DEVICE_VGPU = 0xA080;
inline constexpr rm::NvU32 NVA081_VGPU_CONFIG = 0xA081;
inline constexpr rm::NvU32 NVA084_KERNEL_HOST_VGPU_DEVICE = 0xA084;
inline constexpr rm::NvU32 NVFBC_SW_SESSION = 0xA0BD;
inline constexpr rm::NvU32 KEPLER_INLINE_TO_MEMORY_B = 0xA140;
inline constexpr rm::NvU32 KEPLER_CHANNEL_GPFIFO_B = 0xA16F;
inline constexpr rm::NvU32 MAXWELL_CHANNEL_GPFIFO_A = 0xB06F;
inline constexpr rm::NvU32 MAXWELL_DMA_COPY_A = 0xB0B5;
inline constexpr rm::NvU32 MAXWELL_PROFILER_DEVICE = 0xB2CC;
inline constexpr rm::NvU32 NVB4B7_VIDEO_ENCODER = 0xB4B7;
inline constexpr rm::NvU32 NVB8B0_VIDEO_DECODER = 0xB8B0;
inline constexpr rm::NvU32 NVB8D1_VIDEO_NVJPG = 0xB8D1;
inline constexpr rm::NvU32 NVB8FA_VIDEO_OFA = 0xB8FA;
inline constexpr rm::NvU32 PASCAL_CHANNEL_GPFIFO_A = 0xC06F;
inline constexpr rm::NvU32 GP100_UVM_SW = 0xC076;
inline constexpr rm::NvU32 PASCAL_DMA_COPY_A = 0xC0B5;
inline constexpr rm::NvU32 ACCESS_COUNTER_NOTIFY_BUFFER = 0xC365;
inline constexpr rm::NvU32 MMU_FAULT_BUFFER = 0xC369;
inline constexpr rm::NvU32 NVC371_DISP_SF_USER = 0xC371;
inline constexpr rm::NvU32 NVC372_DISPLAY_SW = 0xC372;
inline constexpr rm::NvU32 VOLTA_A = 0xC397;
inline constexpr rm::NvU32 NVC4B0_VIDEO_DECODER = 0xC4B0;
inline constexpr rm::NvU32 NVC4B7_VIDEO_ENCODER = 0xC4B7;
inline constexpr rm::NvU32 NVC4D1_VIDEO_NVJPG = 0xC4D1;
inline constexpr rm::NvU32 NVC570_DISPLAY = 0xC570;
inline constexpr rm::NvU32 NVC573_DISP_CAPABILITIES = 0xC573;
inline constexpr rm::NvU32 UVM_CHANNEL_RETAINER = 0xC574;
inline constexpr rm::NvU32 NVC57A_CURSOR_IMM_CHANNEL_PIO = 0xC57A;
inline constexpr rm::NvU32 NVC57B_WINDOW_IMM_CHANNEL_DMA = 0xC57B;
inline constexpr rm::NvU32 NVC57D_CORE_CHANNEL_DMA = 0xC57D;
inline constexpr rm::NvU32 NVC57E_WINDOW_CHANNEL_DMA = 0xC57E;
inline constexpr rm::NvU32 TURING_A = 0xC597;
inline constexpr rm::NvU32 AMPERE_SMC_PARTITION_REF = 0xC637;
inline constexpr rm::NvU32 AMPERE_SMC_EXEC_PARTITION_REF = 0xC638;
inline constexpr rm::NvU32 AMPERE_SMC_CONFIG_SESSION = 0xC639;
inline constexpr rm::NvU32 AMPERE_SMC_MONITOR_SESSION = 0xC640;
inline constexpr rm::NvU32 NVC670_DISPLAY = 0xC670;
inline constexpr rm::NvU32 NVC671_DISP_SF_USER = 0xC671;
inline constexpr rm::NvU32 NVC673_DISP_CAPABILITIES = 0xC673;
inline constexpr rm::NvU32 NVC67A_CURSOR_IMM_CHANNEL_PIO = 0xC67A;
inline constexpr rm::NvU32 NVC67B_WINDOW_IMM_CHANNEL_DMA = 0xC67B;
inline constexpr rm::NvU32 NVC67D_CORE_CHANNEL_DMA = 0xC67D;
inline constexpr rm::NvU32 NVC67E_WINDOW_CHANNEL_DMA = 0xC67E;
inline constexpr rm::NvU32 AMPERE_A = 0xC697;
inline constexpr rm::NvU32 NVC6B0_VIDEO_DECODER = 0xC6B0;
inline constexpr rm::NvU32 NVC6FA_VIDEO_OFA = 0xC6FA;
inline constexpr rm::NvU32 MMU_VIDMEM_ACCESS_BIT_BUFFER = 0xC763;
inline constexpr rm::NvU32 NVC770_DISPLAY = 0xC770;
inline constexpr rm::NvU32 NVC771_DISP_SF_USER = 0xC771;
inline constexpr rm::NvU32 NVC773_DISP_CAPABILITIES = 0xC773;
inline constexpr rm::NvU32 NVC77D_CORE_CHANNEL_DMA = 0xC77D;
inline constexpr rm::NvU32 NVC77F_ANY_CHANNEL_DMA = 0xC77F;
inline constexpr rm::NvU32 AMPERE_B = 0xC797;
inline constexpr rm::NvU32 NVC7B0_VIDEO_DECODER = 0xC7B0;
inline constexpr rm::NvU32 NVC7B7_VIDEO_ENCODER = 0xC7B7;
inline constexpr rm::NvU32 NVC7FA_VIDEO_OFA = 0xC7FA;
inline constexpr rm::NvU32 ADA_A = 0xC997;
inline constexpr rm::NvU32 NVC9B0_VIDEO_DECODER = 0xC9B0;
inline constexpr rm::NvU32 NVC9B7_VIDEO_ENCODER = 0xC9B7;
inline constexpr rm::NvU32 NVC9D1_VIDEO_NVJPG = 0xC9D1;
inline constexpr rm::NvU32 NVC9FA_VIDEO_OFA = 0xC9FA;
inline constexpr rm::NvU32 NV_CONFIDENTIAL_COMPUTE = 0xCB33;
inline constexpr rm::NvU32 HOPPER_A = 0xCB97;
inline constexpr rm::NvU32 HOPPER_SEC2_WORK_LAUNCH_A = 0xCBA2;
inline constexpr rm::NvU32 NV_COUNTER_COLLECTION_UNIT = 0xCBCA;
inline constexpr rm::NvU32 NVCDB0_VIDEO_DECODER = 0xCDB0;
inline constexpr rm::NvU32 NVCDD1_VIDEO_NVJPG = 0xCDD1;
inline constexpr rm::NvU32 NVCDFA_VIDEO_OFA = 0xCDFA;

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_MORE_CLASSES_H_
