// /dev/nvidia-uvm. Its VA spaces are not simulated yet: a file can be initialised, and everything
// else is refused. kernel-open/nvidia-uvm/uvm.c of the driver.
#include <cerrno>

#include "rm/uvm_table.h"
#include "sim/driver/bytes.h"
#include "sim/driver/driver.h"

namespace cgpu::sim {
namespace {

// From kernel-open/nvidia-uvm/uvm_linux_ioctl.h:
struct UvmInitializeParams {
  rm::NvU64 flags;
  NvStatus rm_status;
  rm::NvU32 padding;
};

constexpr rm::NvU64 kKnownInitFlags = 0x3;  // DISABLE_HMM, MULTI_PROCESS_SHARING_MODE

}  // namespace

int Driver::UvmIoctl(rm::NvU32 request, rm::NvP64 argument, Caller& caller) {
  int error = EINVAL;
  if (request == rm::UVM_INITIALIZE) {
    std::vector<std::byte> bytes(sizeof(UvmInitializeParams));
    if (!caller.Read(argument, bytes)) {
      error = EFAULT;
    } else {
      auto params = Load<UvmInitializeParams>(bytes);
      params.rm_status =
          (params.flags & ~kKnownInitFlags) == 0 ? rm::NV_OK : rm::NV_ERR_INVALID_ARGUMENT;
      Store(std::span(bytes), params);
      error = caller.Write(argument, bytes) ? 0 : EFAULT;
    }
  } else if (request == rm::UVM_DEINITIALIZE) {
    error = 0;
  }
  if (error != 0) {
    const rm::UvmRow* row = rm::FindUvm(request);
    const std::lock_guard lock(mutex_);
    ++refused_[row == nullptr ? "uvm " + std::to_string(request) : std::string(row->name)];
  }
  return error;
}

}  // namespace cgpu::sim
