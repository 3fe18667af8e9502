// Events of the system: ALLOC_OS_EVENT, FREE_OS_EVENT and RM_GET_EVENT_DATA.
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/quotas.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

// Reads what waits on the file itself.
void DecodeEventData(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  NoteNested(call, sizeof(rm::NvUnixEvent), -1, offsetof(rm::NVOS41_PARAMETERS, pEvent),
             /*copy_out=*/true, /*copy_in=*/false);
}

// Hides errors. The driver reports the error of any channel on the GPU to all that wait for such an
// event (gpu_rmapi.c gpuNotifySubDeviceEvent_IMPL()): that there was one, and not what it was.
std::optional<Undo> AccountEventData(Container& /*container*/, Call& call, Decision& /*decision*/) {
  if (call.nested.empty()) {
    return std::nullopt;
  }
  Bytes& bytes = call.nested[0].bytes;
  if (auto event = Load<rm::NvUnixEvent>(bytes);
      event.NotifyIndex == rm::NV2080_NOTIFIERS_RC_ERROR) {
    event.info32 = 0;
    event.info16 = 0;
    Store(bytes, event);
  }
  return std::nullopt;
}

// Counts an event. The driver looks for an event by its client and number in one list of all users
// of the host, and has each only once (osapi.c allocate_os_event()). The number is one of the
// program's descriptors, but only a name to the driver, so any number works. A client's events end
// with it, and those made on a file with the file. Which file that was is not kept: a program has
// few numbers, and an event that it makes again under the same number is no other event here.
Decision DecideAllocOsEvent(Container& container, Call& call, Decision decision) {
  const auto params = Load<rm::nv_ioctl_alloc_os_event_t>(call.image);
  const std::pair name(params.hClient, params.fd);
  if (!container.os_events.contains(name) && container.os_events.size() >= kMaxOsEvents) {
    std::erase_if(container.os_events, [&container](const auto& one) {
      return !container.Lives({one.first.first, one.second});
    });
    if (container.os_events.size() >= kMaxOsEvents) {
      return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                              "events of the system over the quota");
    }
  }
  // If the driver refuses it, it exists already, or its place is kept until it is freed.
  container.os_events[name] = decision.client.serial;
  return decision;
}

// Forgets an event. One that the driver did not find does not exist here either.
void SettleFreeOsEvent(Container& container, Call& call, const Decision& /*decision*/,
                       const Outcome& outcome) {
  if (outcome.error == 0) {
    const auto params = Load<rm::nv_ioctl_free_os_event_t>(call.image);
    container.os_events.erase({params.hClient, params.fd});
  }
}

}  // namespace cgpu::boundary
