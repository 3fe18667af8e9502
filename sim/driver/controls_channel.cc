// Controls on channel groups and channels. There is no GPU behind them yet: they are recorded.
#include "rm/nv_controls.h"
#include "sim/driver/control.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 kDefaultTimesliceUs = 1049;  // kernel_fifo_gv100.c: 128 << 3 units of 1024 ns

NvStatus Schedule(ControlCall& call) {
  call.object.scheduled = call.Get<rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535>().bEnable != 0;
  return rm::NV_OK;
}

NvStatus SetTimeslice(ControlCall& call) {
  const auto params = call.Get<rm::NVA06C_CTRL_TIMESLICE_PARAMS>();
  if (params.timesliceUs == 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  call.object.timeslice_us = params.timesliceUs;
  return rm::NV_OK;
}

NvStatus GetTimeslice(ControlCall& call) {
  const rm::NvU64 set = call.object.timeslice_us;
  call.Put(rm::NVA06C_CTRL_TIMESLICE_PARAMS{set == 0 ? kDefaultTimesliceUs : set});
  return rm::NV_OK;
}

NvStatus Preempt(ControlCall& /*call*/) {
  return rm::NV_OK;
}

NvStatus GetInfo(ControlCall& call) {
  call.Put(rm::NVA06C_CTRL_GET_INFO_PARAMS{call.object.handle & 0x7FFU});
  return rm::NV_OK;
}

NvStatus SetInterleave(ControlCall& call) {
  constexpr rm::NvU32 kHigh = 2;
  return call.Get<rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS>().tsgInterleaveLevel <= kHigh
             ? rm::NV_OK
             : rm::NV_ERR_INVALID_ARGUMENT;
}

NvStatus WorkSubmitToken(ControlCall& call) {
  call.Put(rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS{call.object.handle & 0x7FFU});
  return rm::NV_OK;
}

// kernel_fifo_ctrl.c subdeviceCtrlCmdFifoDisableChannels_IMPL(): pairs of (client, channel) that
// need not be the caller's; only the event pointer is checked.
NvStatus DisableChannels(ControlCall& call) {
  const auto params = call.Get<rm::NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS>();
  if (params.pRunlistPreemptEvent != 0) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  if (params.numChannels > std::size(params.hClientList)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < params.numChannels; ++i) {
    Client* client = call.model.FindClient(params.hClientList[i]);
    Object* channel =
        client == nullptr ? nullptr : DriverModel::FindObject(*client, params.hChannelList[i]);
    if (channel == nullptr || channel->kind != ObjectKind::kChannel) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    channel->scheduled = params.bDisable == 0;
  }
  return rm::NV_OK;
}

constexpr ObjectKind kGroup = ObjectKind::kChannelGroup;
constexpr ControlEntry kEntries[] = {
    {rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, kGroup, Schedule},
    {rm::NVA06C_CTRL_CMD_SET_TIMESLICE, kGroup, SetTimeslice},
    {rm::NVA06C_CTRL_CMD_GET_TIMESLICE, kGroup, GetTimeslice},
    {rm::NVA06C_CTRL_CMD_PREEMPT, kGroup, Preempt},
    {rm::NVA06C_CTRL_CMD_GET_INFO, kGroup, GetInfo},
    {rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, kGroup, SetInterleave, Privilege::kNice},
    {rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, ObjectKind::kChannel, WorkSubmitToken},
    {rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, ObjectKind::kSubdevice, DisableChannels},
};

}  // namespace

std::span<const ControlEntry> ChannelControls() {
  return kEntries;
}

}  // namespace cgpu::sim
