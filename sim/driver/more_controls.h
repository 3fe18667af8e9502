// Controls that the simulation answers and cgpu's tables need not know, by the vendor's names.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/common/sdk/nvidia/inc/ctrl/.
#ifndef CGPU_SIM_DRIVER_MORE_CONTROLS_H_
#define CGPU_SIM_DRIVER_MORE_CONTROLS_H_

#include "rm/nv_ctrl.h"
#include "rm/nv_types.h"

namespace cgpu::sim {

// ---- ctrla06c.h, ctrla06f/ctrla06fgpfifo.h, ctrl906f.h, ctrlc36f.h
inline constexpr rm::NvU32 NVA06C_CTRL_CMD_BIND = 0xA06C0102;
inline constexpr rm::NvU32 NVA06C_CTRL_CMD_GET_INTERLEAVE_LEVEL = 0xA06C0108;
inline constexpr rm::NvU32 NVA06F_CTRL_CMD_GPFIFO_SCHEDULE = 0xA06F0103;
inline constexpr rm::NvU32 NVA06F_CTRL_CMD_BIND = 0xA06F0104;
inline constexpr rm::NvU32 NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL = 0xA06F0109;
inline constexpr rm::NvU32 NVA06F_CTRL_CMD_GET_INTERLEAVE_LEVEL = 0xA06F0110;
inline constexpr rm::NvU32 NVA06F_CTRL_CMD_STOP_CHANNEL = 0xA06F0112;
inline constexpr rm::NvU32 NV906F_CTRL_CMD_RESET_CHANNEL = 0x906F0102;
inline constexpr rm::NvU32 NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX = 0xC36F010A;

// ---- ctrl0080/ctrl0080fifo.h
inline constexpr rm::NvU32 NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST = 0x80170D;
struct NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS {
  rm::NvU32 numChannels;
  rm::NvP64 pChannelHandleList;
  rm::NvP64 pChannelList;
};
static_assert(sizeof(NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS) == 24);

// ---- ctrl0000/ctrl0000gpuacct.h
inline constexpr rm::NvU32 NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE = 0xB02;
inline constexpr rm::NvU32 NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO = 0xB03;
inline constexpr rm::NvU32 NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS = 0xB04;
struct NV0000_CTRL_GPUACCT_GET_ACCOUNTING_STATE_PARAMS {
  rm::NvU32 gpuId;
  rm::NvU32 pid;
  rm::NvU32 state;
};
struct NV0000_CTRL_GPUACCT_GET_PROC_ACCOUNTING_INFO_PARAMS {
  rm::NvU32 gpuId;
  rm::NvU32 pid;
  rm::NvU32 subPid;
  rm::NvU32 gpuUtil;
  rm::NvU32 fbUtil;
  rm::NvU64 maxFbUsage;
  rm::NvU64 startTime;
  rm::NvU64 endTime;
};
struct NV0000_CTRL_GPUACCT_GET_ACCOUNTING_PIDS_PARAMS {
  rm::NvU32 gpuId;
  rm::NvU32 pid;
  rm::NvU32 pidTbl[4000];
  rm::NvU32 pidCount;
};

// ---- ctrl0000/ctrl0000system.h. Both forms begin alike: 32 ids, their count, the capabilities.
inline constexpr rm::NvU32 NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS = 0x127;
inline constexpr rm::NvU32 NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2 = 0x12B;

// ---- ctrl2080/ctrl2080gpu.h, ctrl2080perf.h, ctrl2080fb.h
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO = 0x20800119;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES = 0x20800131;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GPU_GET_ENGINES_V2 = 0x20800170;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GPU_GET_MAX_SUPPORTED_PAGE_SIZE = 0x20800188;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_PERF_BOOST = 0x2080200A;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2 = 0x20802096;
inline constexpr rm::NvU32 NV2080_GPUMON_PID_INVALID = 0xFFFFFFFF;  // ctrl2080gpumon.h

// ---- ctrl2080/ctrl2080gr.h
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE = 0x20801210;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GR_GET_CTXSW_STATS = 0x20801215;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GR_GET_CURRENT_RESIDENT_CHANNEL = 0x2080121C;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GR_GET_GPC_MASK = 0x2080122A;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GR_GET_TPC_MASK = 0x2080122B;
inline constexpr rm::NvU32 NV2080_CTRL_CMD_GR_GET_NUM_TPCS_FOR_GPC = 0x20801234;
struct NV2080_CTRL_GR_GET_CTXSW_STATS_PARAMS {
  rm::NvHandle hChannel;
  rm::NvU32 flags;
  rm::NvU32 saveCnt;
  rm::NvU32 restoreCnt;
  rm::NvU32 wfiSaveCnt;
  rm::NvU32 ctaSaveCnt;
  rm::NvU32 cilpSaveCnt;
  rm::NvU32 gfxpSaveCnt;
};
struct NV2080_CTRL_GR_GET_GPC_MASK_PARAMS {
  rm::NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
  rm::NvU32 gpcMask;
};
struct NV2080_CTRL_GR_GET_TPC_MASK_PARAMS {
  rm::NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
  rm::NvU32 gpcId;
  rm::NvU32 tpcMask;
};
struct NV2080_CTRL_GR_GET_NUM_TPCS_FOR_GPC_PARAMS {
  rm::NvU32 gpcId;
  rm::NvU32 numTpcs;
};

// ---- No public header: how the simulation tells the load of a whole GPU (controls_firmware.cc).
struct FirmwareTelemetry {
  rm::NvU64 usedBytes;
  rm::NvU32 channels;
  rm::NvU32 processes;
};
static_assert(sizeof(FirmwareTelemetry) == 16);

// ---- ctrl83de/ctrl83dedebug.h
inline constexpr rm::NvU32 NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO = 0x83DE0328;
inline constexpr rm::NvU32 NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES = 0x83DE030C;
inline constexpr rm::NvU32 NV83DE_CTRL_CMD_DEBUG_SUSPEND_CONTEXT = 0x83DE0317;
inline constexpr rm::NvU32 NV83DE_CTRL_CMD_DEBUG_RESUME_CONTEXT = 0x83DE0318;

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_MORE_CONTROLS_H_
