#include "rmclient/client.h"

#include <fcntl.h>

#include <utility>

#include "base/file.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"

namespace cgpu::rmclient {
namespace {

Result<UniqueFd> OpenControlFile(const std::string& path) {
  Result<UniqueFd> file = OpenFile(path, O_RDWR);
  if (file.ok()) {
    return file;
  }
  Error error = file.error();
  if (error.sys_errno == ENOENT || error.sys_errno == ENXIO || error.sys_errno == ENODEV) {
    error.code = Code::kNotFound;
    error.hint = "is the NVIDIA driver loaded here, or a simulated node started?";
  }
  return error;
}

}  // namespace

Result<Client> Client::Open(DevicePaths paths) {
  Result<UniqueFd> ctl = OpenControlFile(paths.ctl);
  if (!ctl.ok()) {
    return ctl.error();
  }
  Result<std::string> version = QueryDriverVersion(ctl->get());
  if (!version.ok()) {
    return version.error();
  }
  const std::optional<rm::DriverVersion> parsed = rm::ParseDriverVersion(*version);
  const rm::Abi* abi = parsed ? rm::FindAbi(*parsed) : nullptr;
  if (abi == nullptr) {
    return rm::UnsupportedDriver(*version);
  }
  rm::NvHandle handle = 0;
  const Outcome outcome =
      rmclient::Alloc(ctl->get(), 0, 0, &handle, rm::NV01_ROOT_CLIENT, nullptr, 0);
  if (!outcome.ok()) {
    return CallError(outcome, "making a client of the NVIDIA driver");
  }
  return Client(std::move(paths), std::move(*ctl), std::move(*version), abi, handle);
}

Client::Client(DevicePaths paths, UniqueFd ctl, std::string driver_version, const rm::Abi* abi,
               rm::NvHandle handle)
    : paths_(std::move(paths)),
      ctl_(std::move(ctl)),
      driver_version_(std::move(driver_version)),
      abi_(abi),
      handle_(handle) {}

Client::Client(Client&& other) noexcept
    : paths_(std::move(other.paths_)),
      ctl_(std::move(other.ctl_)),
      driver_version_(std::move(other.driver_version_)),
      abi_(other.abi_),
      handle_(std::exchange(other.handle_, 0)),
      next_handle_(other.next_handle_) {}

Client& Client::operator=(Client&& other) noexcept {
  if (this != &other) {
    Release();
    paths_ = std::move(other.paths_);
    ctl_ = std::move(other.ctl_);
    driver_version_ = std::move(other.driver_version_);
    abi_ = other.abi_;
    handle_ = std::exchange(other.handle_, 0);
    next_handle_ = other.next_handle_;
  }
  return *this;
}

Client::~Client() {
  Release();
}

void Client::Release() noexcept {
  if (handle_ != 0) {
    // Closing the file frees it as well; a failure here changes nothing.
    static_cast<void>(rmclient::Free(fd(), handle_, 0, handle_));
    handle_ = 0;
  }
}

Outcome Client::Alloc(rm::NvHandle parent, rm::NvHandle* handle, rm::NvU32 class_number,
                      void* params, std::size_t params_size) {
  *handle = NewHandle();
  return rmclient::Alloc(fd(), handle_, parent, handle, class_number, params,
                         static_cast<rm::NvU32>(params_size));
}

Outcome Client::Free(rm::NvHandle parent, rm::NvHandle object) {
  return rmclient::Free(fd(), handle_, parent, object);
}

Outcome Client::Control(rm::NvHandle object, rm::NvU32 cmd, void* params, std::size_t params_size) {
  return rmclient::Control(fd(), handle_, object, cmd, params, static_cast<rm::NvU32>(params_size));
}

Outcome Client::Dup(rm::NvHandle parent, rm::NvHandle* handle, rm::NvHandle source_client,
                    rm::NvHandle source_object) {
  *handle = NewHandle();
  return rmclient::Dup(fd(), handle_, parent, handle, source_client, source_object,
                       rm::NV04_DUP_HANDLE_FLAGS_NONE);
}

Outcome Client::Share(rm::NvHandle object, const rm::RS_SHARE_POLICY& policy) {
  return rmclient::Share(fd(), handle_, object, policy);
}

Result<UniqueFd> Client::ExportObject(rm::NvHandle device, rm::NvHandle parent,
                                      rm::NvHandle object) {
  Result<UniqueFd> file = OpenControlFile(paths_.ctl);
  if (!file.ok()) {
    return file.error();
  }
  rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS params = {};
  params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  params.object.data.rmObject = {device, parent, object};
  params.fd = file->get();
  const Outcome outcome =
      Control(handle_, rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, &params, sizeof(params));
  if (!outcome.ok()) {
    return CallError(outcome, "exporting an object to a file");
  }
  return std::move(*file);
}

Result<rm::NvHandle> Client::ImportObject(int fd, rm::NvHandle device, rm::NvHandle parent) {
  rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS params = {};
  params.fd = fd;
  params.object.type = rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM;
  params.object.data.rmObject = {device, parent, NewHandle()};
  const Outcome outcome =
      Control(handle_, rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, &params, sizeof(params));
  if (!outcome.ok()) {
    return CallError(outcome, "importing an object from a file");
  }
  return params.object.data.rmObject.hObject;
}

}  // namespace cgpu::rmclient
