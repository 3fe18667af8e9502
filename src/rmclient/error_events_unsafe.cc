#include <fcntl.h>

#include <string>

#include "base/file.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rmclient/error_events.h"

namespace cgpu::rmclient {

Result<ErrorEvents> ErrorEvents::Make(Client& client, const Gpu& gpu) {
  // A file of its own: a file's events are told to the first that asks.
  CGPU_ASSIGN_OR_RETURN(auto file, OpenFile(client.paths().gpu(gpu.minor), O_RDWR));
  if (const int error = RegisterFd(file.get(), client.fd()); error != 0) {
    return ErrnoError(Code::kUnavailable, error, "registering a file of GPU " + gpu.bdf);
  }
  ErrorEvents events(client, gpu.device, std::move(file));
  CGPU_TRY(events.Subscribe(gpu));
  return events;
}

Result<> ErrorEvents::Subscribe(const Gpu& gpu) {
  const std::string what = "waiting for errors of GPU " + gpu.bdf;
  rm::NV2080_ALLOC_PARAMETERS subdevice = {};
  subdevice.subDeviceId = gpu.subdevice_instance;
  CGPU_TRY(Checked(
      client_->Alloc(device_, &subdevice_, rm::NV20_SUBDEVICE_0, &subdevice, sizeof(subdevice)),
      what));
  rm::nv_ioctl_alloc_os_event_t os_event = {};
  os_event.hClient = client_->handle();
  os_event.hDevice = device_;
  os_event.fd = static_cast<rm::NvU32>(file_.get());
  const int error = Escape(file_.get(), rm::NV_ESC_ALLOC_OS_EVENT, &os_event, sizeof(os_event));
  CGPU_TRY(Checked({error, os_event.Status}, what));
  rm::NV0005_ALLOC_PARAMETERS event = {};
  event.hParentClient = client_->handle();
  event.hSrcResource = subdevice_;
  event.hClass = rm::NV01_EVENT_OS_EVENT;
  event.notifyIndex = rm::NV2080_NOTIFIERS_RC_ERROR;
  event.data = os_event.fd;
  rm::NvHandle handle = 0;
  CGPU_TRY(Checked(
      client_->Alloc(subdevice_, &handle, rm::NV01_EVENT_OS_EVENT, &event, sizeof(event)), what));
  struct {  // NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS, ctrl2080event.h
    rm::NvU32 event;
    rm::NvU32 action;
    rm::NvBool bNotifyState;
    rm::NvU32 info32;
    rm::NvU16 info16;
  } notification = {};
  static_assert(sizeof(notification) == 20);
  notification.event = rm::NV2080_NOTIFIERS_RC_ERROR;
  notification.action = 2;  // NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT
  return Checked(client_->Control(subdevice_, rm::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION,
                                  &notification, sizeof(notification)),
                 what);
}

ErrorEvents::~ErrorEvents() {
  if (!file_.valid()) {
    return;
  }
  rm::nv_ioctl_free_os_event_t os_event = {};
  os_event.hClient = client_->handle();
  os_event.hDevice = device_;
  os_event.fd = static_cast<rm::NvU32>(file_.get());
  (void)Escape(file_.get(), rm::NV_ESC_FREE_OS_EVENT, &os_event, sizeof(os_event));
  if (subdevice_ != 0) {
    (void)client_->Free(device_, subdevice_);
  }
}

std::optional<std::uint32_t> ErrorEvents::Read() {
  rm::NvUnixEvent event = {};
  rm::NVOS41_PARAMETERS params = {};
  params.pEvent = reinterpret_cast<std::uintptr_t>(&event);
  const int error = Escape(file_.get(), rm::NV_ESC_RM_GET_EVENT_DATA, &params, sizeof(params));
  return Outcome{error, params.status}.ok() ? std::optional(event.info32) : std::nullopt;
}

}  // namespace cgpu::rmclient
