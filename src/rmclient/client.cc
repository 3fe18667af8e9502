#include "rmclient/client.h"

#include <fcntl.h>

#include <utility>

#include "base/file.h"
#include "rm/nv_classes.h"

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
  CGPU_ASSIGN_OR_RETURN(auto ctl, OpenControlFile(paths.ctl));
  CGPU_ASSIGN_OR_RETURN(auto version, QueryDriverVersion(ctl.get()));
  const std::optional<rm::DriverVersion> parsed = rm::ParseDriverVersion(version);
  const rm::Abi* abi = parsed ? rm::FindAbi(*parsed) : nullptr;
  if (abi == nullptr) {
    return rm::UnsupportedDriver(version);
  }
  rm::NvHandle handle = 0;
  CGPU_TRY(Checked(rmclient::Alloc(ctl.get(), 0, 0, &handle, rm::NV01_ROOT_CLIENT, nullptr, 0),
                   "making a client of the NVIDIA driver"));
  return Client(std::move(paths), std::move(ctl), std::move(version), abi, handle);
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

Client::~Client() {
  if (handle_ != 0) {
    // Closing the file frees it as well; a failure here changes nothing.
    static_cast<void>(rmclient::Free(fd(), handle_, 0, handle_));
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

}  // namespace cgpu::rmclient
