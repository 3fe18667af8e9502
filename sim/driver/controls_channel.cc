// Controls on channel groups and channels: what they set is kept, shown in the accounting, and told
// to the engines.
#include "rm/nv_controls.h"
#include "sim/driver/control.h"
#include "sim/driver/more_controls.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 kDefaultTimesliceUs = 1049;  // kernel_fifo_gv100.c: 128 << 3 units of 1024 ns
constexpr rm::NvU32 kHighInterleave = 2;
constexpr rm::NvU32 kLongestPreemptUs = 1000000;  // NVA06C_CTRL_CMD_PREEMPT_MAX_MANUAL_TIMEOUT_US
constexpr rm::NvU64 kGpuTimeoutUs = 4000000;
constexpr rm::NvU32 kInvalidChannel = 0xFFFFFFFF;  // ..._GET_CHANNELLIST_INVALID_CHANNEL

Group& GroupOf(ControlCall& call) {
  return DriverModel::GroupOf(call.client, call.object);
}

// kernel_channel_group_api.c kchangrpapiCtrlCmdGpFifoSchedule_IMPL(): every channel of the group.
NvStatus ScheduleGroup(ControlCall& call) {
  const bool enable = call.Get<rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535>().bEnable != 0;
  call.object.group->scheduled = enable;
  call.wait.ticket = call.model.ScheduleGroup(call.client, call.object, enable);
  return rm::NV_OK;
}

NvStatus ScheduleChannel(ControlCall& call) {
  const bool enable = call.Get<rm::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535>().bEnable != 0;
  call.wait.ticket = call.model.ScheduleChannel(call.client, call.object, enable);
  return rm::NV_OK;
}

NvStatus BindChannel(ControlCall& /*call*/) {
  return rm::NV_OK;
}

// kernel_channel.c kchannelCtrlCmdStopChannel_IMPL(): it never runs again.
NvStatus StopChannel(ControlCall& call) {
  call.wait.ticket = call.model.Stop(call.object);
  return rm::NV_OK;
}

// ctrla06fgpfifo.h: without bBypassWait it returns when the context switch is complete. Without
// bForceRestart the driver skips it while the channel's group runs; here it is always done.
NvStatus RestartRunlist(ControlCall& call) {
  const GpuTicket ticket = call.model.Restart(call.object);
  if (call.Get<rm::NVA06F_CTRL_RESTART_RUNLIST_PARAMS>().bBypassWait == 0) {
    call.wait.ticket = ticket;
  }
  return rm::NV_OK;
}

NvStatus SetTimeslice(ControlCall& call) {
  const auto params = call.Get<rm::NVA06C_CTRL_TIMESLICE_PARAMS>();
  if (params.timesliceUs == 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  call.model.SetTimeslice(GroupOf(call), params.timesliceUs);
  return rm::NV_OK;
}

NvStatus GetTimeslice(ControlCall& call) {
  const rm::NvU64 set = GroupOf(call).timeslice_us;
  call.Put(rm::NVA06C_CTRL_TIMESLICE_PARAMS{set == 0 ? kDefaultTimesliceUs : set});
  return rm::NV_OK;
}

// ctrl/ctrla06c/ctrla06cgpfifo.h: without bWait it returns at once; the driver's own timeout is
// that of its GPU timeouts, 4 s (gpu_timeout.c).
NvStatus Preempt(ControlCall& call) {
  const auto params = call.Get<rm::NVA06C_CTRL_PREEMPT_PARAMS>();
  if (params.bManualTimeout != 0 && params.timeoutUs > kLongestPreemptUs) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const GpuTicket ticket = call.model.Preempt(GroupOf(call));
  if (params.bWait != 0) {
    call.wait.ticket = ticket;
    call.wait.timeout_us = params.bManualTimeout != 0 ? params.timeoutUs : kGpuTimeoutUs;
  }
  return rm::NV_OK;
}

NvStatus GetInfo(ControlCall& call) {
  call.Put(rm::NVA06C_CTRL_GET_INFO_PARAMS{call.object.handle & 0x7FFU});
  return rm::NV_OK;
}

NvStatus SetInterleave(ControlCall& call) {
  const rm::NvU32 level = call.Get<rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS>().tsgInterleaveLevel;
  if (level > kHighInterleave) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  call.model.SetInterleave(GroupOf(call), level);
  return rm::NV_OK;
}

NvStatus GetInterleave(ControlCall& call) {
  call.Put(rm::NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS{GroupOf(call).interleave});
  return rm::NV_OK;
}

// kernel_fifo_ga100.c: the runlist and the channel's number. Anyone can work one out.
NvStatus WorkSubmitToken(ControlCall& call) {
  const ChannelIds::Id& id = *call.object.channel_id;
  // kernel_channel.c kchannelNotifyWorkSubmitToken_IMPL() writes it to the notifiers as well.
  call.model.NoteUse(call.object.setup.errors);
  call.Put(
      rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS{id.Runlist() << 16 | id.Number()});
  return rm::NV_OK;
}

NvStatus SetNotificationIndex(ControlCall& /*call*/) {
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
  std::vector<DriverModel::Owned> channels;
  for (rm::NvU32 i = 0; i < params.numChannels; ++i) {
    Client* client = call.model.FindClient(params.hClientList[i]);
    Object* channel =
        client == nullptr ? nullptr : DriverModel::FindObject(*client, params.hChannelList[i]);
    if (channel == nullptr || channel->kind != ObjectKind::kChannel) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    channels.emplace_back(client, channel);
  }
  call.wait.ticket =
      call.model.Disable(channels, params.bDisable != 0, params.bOnlyDisableScheduling != 0);
  return rm::NV_OK;
}

// kernel_fifo_ctrl.c deviceCtrlCmdFifoGetChannelList_IMPL(): the numbers of the caller's channels.
NvStatus GetChannelList(ControlCall& call) {
  const auto params = call.Get<NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS>();
  if (params.numChannels == 0 || call.embedded.empty()) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < params.numChannels; ++i) {
    const auto place = call.embedded.subspan(i * sizeof(rm::NvHandle));
    const Object* channel = DriverModel::FindObject(call.client, Load<rm::NvHandle>(place));
    const bool found = channel != nullptr && channel->kind == ObjectKind::kChannel;
    Store(place, found ? channel->channel_id->Number() : kInvalidChannel);
  }
  call.embedded_target = params.pChannelList;
  return rm::NV_OK;
}

constexpr EmbeddedPointer kChannelHandles{
    offsetof(NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS, pChannelHandleList),
    offsetof(NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS, numChannels), sizeof(rm::NvHandle), 4096};
using enum ObjectKind;
constexpr ControlEntry kChannelEntries[] = {
    {rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, kChannelGroup, ScheduleGroup},
    {NVA06C_CTRL_CMD_BIND, kChannelGroup, BindChannel},
    {rm::NVA06C_CTRL_CMD_SET_TIMESLICE, kChannelGroup, SetTimeslice},
    {rm::NVA06C_CTRL_CMD_GET_TIMESLICE, kChannelGroup, GetTimeslice},
    {rm::NVA06C_CTRL_CMD_PREEMPT, kChannelGroup, Preempt},
    {rm::NVA06C_CTRL_CMD_GET_INFO, kChannelGroup, GetInfo},
    {rm::NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, kChannelGroup, SetInterleave, Privilege::kNice},
    {NVA06C_CTRL_CMD_GET_INTERLEAVE_LEVEL, kChannelGroup, GetInterleave},
    {NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, kChannel, ScheduleChannel},
    {NVA06F_CTRL_CMD_BIND, kChannel, BindChannel},
    {NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, kChannel, SetInterleave, Privilege::kNice},
    {NVA06F_CTRL_CMD_GET_INTERLEAVE_LEVEL, kChannel, GetInterleave},
    {NVA06F_CTRL_CMD_STOP_CHANNEL, kChannel, StopChannel},
    {rm::NVA06F_CTRL_CMD_RESTART_RUNLIST, kChannel, RestartRunlist, Privilege::kNice},
    {NV906F_CTRL_CMD_RESET_CHANNEL, kChannel, StopChannel},
    {rm::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, kChannel, WorkSubmitToken},
    {NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX, kChannel, SetNotificationIndex},
    {rm::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, ObjectKind::kSubdevice, DisableChannels},
    {NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, ObjectKind::kDevice, GetChannelList, Privilege::kAny,
     kChannelHandles},
};

}  // namespace

std::span<const ControlEntry> ChannelControls() {
  return kChannelEntries;
}

}  // namespace cgpu::sim
