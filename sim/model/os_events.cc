// Events of a GPU that programs wait for: NV01_EVENT_OS_EVENT of a subdevice.
#include <algorithm>

#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

// NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_*, ctrl2080event.h.
enum : rm::NvU32 { kDisable = 0, kSingle = 1, kRepeat = 2 };
constexpr rm::NvU32 kNotifiers = 181;  // NV2080_NOTIFIERS_MAXCOUNT of 535, the fewest

bool IsOf(const Object& event, rm::NvHandle client, rm::NvHandle subdevice) {
  return event.os_event && event.os_event->source_client == client &&
         event.os_event->source == subdevice;
}

}  // namespace

// subdevice_ctrl_event_kernel.c subdeviceCtrlCmdEventSetNotification_IMPL().
NvStatus DriverModel::SetNotification(const Client& client, Object& subdevice, rm::NvU32 index,
                                      rm::NvU32 action) const {
  const bool waited_for = std::ranges::any_of(clients_, [&](const auto& one) {
    return std::ranges::any_of(one.second.objects, [&](const auto& entry) {
      return IsOf(entry.second, client.handle, subdevice.handle);
    });
  });
  if (!waited_for) {
    return rm::NV_ERR_INVALID_STATE;
  }
  if (index >= kNotifiers || action > kRepeat) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  rm::NvU32& now = subdevice.notify[index];
  if (action != kDisable && now != kDisable) {
    return rm::NV_ERR_INVALID_STATE;
  }
  now = action;
  return rm::NV_OK;
}

// gpu_rmapi.c gpuNotifySubDeviceEvent_IMPL(), nv.c nv_post_event().
std::set<FileId> DriverModel::Notify(int gpu, rm::NvU32 index, rm::NvU32 info32) {
  std::set<FileId> told;
  for (auto& [handle, client] : clients_) {
    for (auto& [name, subdevice] : client.objects) {
      const auto action = subdevice.notify.find(index);
      if (subdevice.gpu != gpu || action == subdevice.notify.end() || action->second == kDisable) {
        continue;
      }
      action->second = action->second == kSingle ? rm::NvU32{kDisable} : action->second;
      for (const auto& [of, other] : clients_) {
        for (const auto& [event_name, event] : other.objects) {
          if (!IsOf(event, handle, name) || event.os_event->index != index) {
            continue;
          }
          const auto place = os_events_.find({of, event.os_event->fd});
          OpenFile* const file = place == os_events_.end() ? nullptr : FindFile(place->second);
          if (file != nullptr) {
            file->events.push_back({event_name, index, info32, 0});
            told.insert(place->second);
          }
        }
      }
    }
  }
  return told;
}

// nv.c nv_get_event().
std::optional<rm::NvUnixEvent> DriverModel::TakeEvent(FileId file, bool* more) {
  OpenFile* const open = FindFile(file);
  if (open == nullptr || open->events.empty()) {
    *more = false;
    return std::nullopt;
  }
  const rm::NvUnixEvent event = open->events.front();
  open->events.pop_front();
  *more = !open->events.empty();
  return event;
}

}  // namespace cgpu::sim
