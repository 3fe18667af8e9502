// Controls that the simulation answers and cgpu's tables may not know, by the vendor's names.
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

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_MORE_CONTROLS_H_
