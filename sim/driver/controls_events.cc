// Controls of event buffers, and what they are bound to.
#include "rm/nv_controls.h"
#include "rm/nv_events.h"
#include "sim/driver/control.h"

namespace cgpu::sim {
namespace {

void Tell(const ControlCall& call, const GpuEventBuffer& events) {
  if (call.model.Engines() != nullptr) {
    call.model.Engines()->SetEventBuffer(events);
  }
}

// event_buffer.c eventbuffertBufferCtrlCmdEnableEvent()
NvStatus EnableEvents(ControlCall& call) {
  const auto params = call.Get<rm::NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS_PARAMS>();
  constexpr rm::NvU32 kKnown = rm::NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_OLDEST |
                               rm::NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_NEWEST;
  if (call.object.events == nullptr || (params.flags & ~kKnown) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  GpuEventBuffer& events = *call.object.events;
  events.enabled = params.enable != 0;
  if (params.flags != 0) {
    events.keep_newest = (params.flags & rm::NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_NEWEST) != 0;
  }
  Tell(call, events);
  return rm::NV_OK;
}

// eventbuffertBufferCtrlCmdUpdateGet()
NvStatus UpdateGet(ControlCall& call) {
  const auto params = call.Get<rm::NV_EVENT_BUFFER_CTRL_CMD_UPDATE_GET_PARAMS>();
  if (call.object.events == nullptr || params.recordBufferGet >= call.object.events->record_count ||
      params.varDataBufferGet > 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  call.object.events->get = params.recordBufferGet;
  Tell(call, *call.object.events);
  return rm::NV_OK;
}

// fecs_event_list.c fecsAddBindpoint()
NvStatus BindSwitches(ControlCall& call) {
  const auto params = call.Get<rm::NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS>();
  const auto found = call.client.objects.find(params.hEventBuffer);
  if (found == call.client.objects.end()) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (found->second.events == nullptr ||
      params.recordSize != sizeof(rm::NV_EVENT_BUFFER_FECS_RECORD_V2)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  GpuEventBuffer& events = *found->second.events;
  if (events.gpu < 0) {
    events.gpu = call.object.gpu;
    events.all_users = params.bAllUsers != 0;
    events.admin = call.caller.IsAdmin();
    events.user = call.client.identity.euid;
    Tell(call, events);
  }
  return rm::NV_OK;
}

constexpr ControlEntry kEventEntries[] = {
    {rm::NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS, ObjectKind::kOther, EnableEvents},
    {rm::NV_EVENT_BUFFER_CTRL_CMD_UPDATE_GET, ObjectKind::kOther, UpdateGet},
    {rm::NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID_V2, ObjectKind::kSubdevice, BindSwitches},
};

}  // namespace

std::span<const ControlEntry> EventControls() {
  return kEventEntries;
}

}  // namespace cgpu::sim
