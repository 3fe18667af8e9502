#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "rm/nv_escape.h"
#include "rmclient/raw.h"

namespace cgpu::rmclient {
namespace {

rm::NvP64 Address(const void* pointer) {
  return reinterpret_cast<rm::NvP64>(pointer);
}

class Kernel final : public GpuCalls {
 public:
  int Call(int file, unsigned long request, void* params) override {
    return ioctl(file, request, params) < 0 ? errno : 0;
  }
};

Code CodeOf(const Outcome& outcome) {
  if (outcome.sys_errno != 0) {
    switch (outcome.sys_errno) {
      case EPERM:
      case EACCES:
        return Code::kPermission;
      case ENOMEM:
        return Code::kExhausted;
      case ENOENT:
      case ENODEV:
      case ENXIO:
        return Code::kNotFound;
      default:
        return Code::kInternal;
    }
  }
  switch (outcome.status) {
    case rm::NV_ERR_NO_MEMORY:
    case rm::NV_ERR_INSUFFICIENT_RESOURCES:
      return Code::kExhausted;
    case rm::NV_ERR_INSUFFICIENT_PERMISSIONS:
      return Code::kPermission;
    case rm::NV_ERR_NOT_SUPPORTED:
    case rm::NV_ERR_INVALID_CLASS:
      return Code::kUnsupported;
    case rm::NV_ERR_OBJECT_NOT_FOUND:
    case rm::NV_ERR_INVALID_OBJECT_HANDLE:
    case rm::NV_ERR_INVALID_CLIENT:
      return Code::kNotFound;
    case rm::NV_ERR_IN_USE:
    case rm::NV_ERR_STATE_IN_USE:
      return Code::kConflict;
    case rm::NV_ERR_GPU_IS_LOST:
    case rm::NV_ERR_BUSY_RETRY:
    case rm::NV_ERR_TIMEOUT:
      return Code::kUnavailable;
    default:
      return Code::kInvalid;
  }
}

}  // namespace

std::string Describe(const Outcome& outcome) {
  if (outcome.sys_errno != 0) {
    char buffer[128];
    return strerror_r(outcome.sys_errno, buffer, sizeof(buffer));
  }
  if (outcome.status == rm::NV_OK) {
    return "ok";
  }
  const char* name = rm::StatusName(outcome.status);
  if (name == nullptr) {
    char number[32];
    std::snprintf(number, sizeof(number), "driver status %#x", outcome.status);
    return number;
  }
  if (outcome.status == rm::NV_ERR_NO_MEMORY) {
    return std::string("out of memory (") + name + ")";
  }
  return name;
}

Error CallError(const Outcome& outcome, const std::string& what) {
  return Error{CodeOf(outcome), outcome.sys_errno, what + ": " + Describe(outcome), {}};
}

Result<> Checked(const Outcome& outcome, const std::string& what) {
  return outcome.ok() ? Result<>() : CallError(outcome, what);
}

GpuCalls& KernelGpuCalls() {
  static Kernel kernel;
  return kernel;
}

int Escape(int fd, rm::NvU8 nr, void* params, std::size_t size, GpuCalls& calls) {
  return calls.Call(fd, rm::EscapeRequest(nr, static_cast<rm::NvU32>(size)), params);
}

Outcome Alloc(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle* handle,
              rm::NvU32 class_number, void* params, rm::NvU32 params_size, GpuCalls& calls) {
  rm::NVOS64_PARAMETERS call = {};
  call.hRoot = client;
  call.hObjectParent = parent;
  call.hObjectNew = *handle;
  call.hClass = class_number;
  call.pAllocParms = Address(params);
  call.paramsSize = params_size;
  const int error = Escape(fd, rm::NV_ESC_RM_ALLOC, &call, sizeof(call), calls);
  *handle = call.hObjectNew;
  return {error, call.status};
}

Outcome Free(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle object,
             GpuCalls& calls) {
  rm::NVOS00_PARAMETERS call = {};
  call.hRoot = client;
  call.hObjectParent = parent;
  call.hObjectOld = object;
  const int error = Escape(fd, rm::NV_ESC_RM_FREE, &call, sizeof(call), calls);
  return {error, call.status};
}

Outcome Control(int fd, rm::NvHandle client, rm::NvHandle object, rm::NvU32 cmd, void* params,
                rm::NvU32 params_size, GpuCalls& calls) {
  rm::NVOS54_PARAMETERS call = {};
  call.hClient = client;
  call.hObject = object;
  call.cmd = cmd;
  call.params = Address(params);
  call.paramsSize = params_size;
  const int error = Escape(fd, rm::NV_ESC_RM_CONTROL, &call, sizeof(call), calls);
  return {error, call.status};
}

Outcome Dup(int fd, rm::NvHandle client, rm::NvHandle parent, rm::NvHandle* handle,
            rm::NvHandle source_client, rm::NvHandle source_object, rm::NvU32 flags,
            GpuCalls& calls) {
  rm::NVOS55_PARAMETERS call = {};
  call.hClient = client;
  call.hParent = parent;
  call.hObject = *handle;
  call.hClientSrc = source_client;
  call.hObjectSrc = source_object;
  call.flags = flags;
  const int error = Escape(fd, rm::NV_ESC_RM_DUP_OBJECT, &call, sizeof(call), calls);
  *handle = call.hObject;
  return {error, call.status};
}

Outcome Share(int fd, rm::NvHandle client, rm::NvHandle object, const rm::RS_SHARE_POLICY& policy) {
  rm::NVOS57_PARAMETERS call = {};
  call.hClient = client;
  call.hObject = object;
  call.sharePolicy = policy;
  const int error = Escape(fd, rm::NV_ESC_RM_SHARE, &call, sizeof(call));
  return {error, call.status};
}

Outcome MapMemory(int fd, rm::nv_ioctl_nvos33_parameters_with_fd* params) {
  const int error = Escape(fd, rm::NV_ESC_RM_MAP_MEMORY, params, sizeof(*params));
  return {error, params->params.status};
}

Outcome UnmapMemory(int fd, rm::NVOS34_PARAMETERS* params) {
  const int error = Escape(fd, rm::NV_ESC_RM_UNMAP_MEMORY, params, sizeof(*params));
  return {error, params->status};
}

int RegisterFd(int gpu_fd, int ctl_fd) {
  rm::nv_ioctl_register_fd_t call = {.ctl_fd = ctl_fd};
  return Escape(gpu_fd, rm::NV_ESC_REGISTER_FD, &call, sizeof(call));
}

Result<std::string> QueryDriverVersion(int ctl_fd) {
  rm::nv_ioctl_rm_api_version_t call = {};
  call.cmd = rm::NV_RM_API_VERSION_CMD_QUERY;
  const int error = Escape(ctl_fd, rm::NV_ESC_CHECK_VERSION_STR, &call, sizeof(call));
  if (error != 0) {
    return ErrnoError(Code::kUnavailable, error, "asking the NVIDIA driver for its version");
  }
  return std::string(call.versionString, strnlen(call.versionString, sizeof(call.versionString)));
}

DevicePaths DevicePaths::InFolder(const std::string& folder) {
  return {folder + "/nvidiactl",
          [folder](unsigned minor) { return folder + "/nvidia" + std::to_string(minor); }};
}

}  // namespace cgpu::rmclient
