// Copies nvidia-uvm's ioctls in.
#include <cerrno>
#include <cstddef>
#include <limits>

#include "boundary/call.h"
#include "rm/nv_uvm.h"
#include "rm/uvm_table.h"

namespace cgpu::boundary {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// Offsets of an RM client's file and handle in the parameters.
struct Names {
  std::size_t fd = kNone;
  std::size_t client = kNone;
  std::size_t object = kNone;
};

Names NamesOf(rm::Branch branch, std::uint32_t request) {
  switch (request) {
    case rm::UVM_REGISTER_GPU_VASPACE:
      return {offsetof(rm::UVM_REGISTER_GPU_VASPACE_PARAMS, rmCtrlFd),
              offsetof(rm::UVM_REGISTER_GPU_VASPACE_PARAMS, hClient),
              offsetof(rm::UVM_REGISTER_GPU_VASPACE_PARAMS, hVaSpace)};
    case rm::UVM_REGISTER_CHANNEL:
      return {offsetof(rm::UVM_REGISTER_CHANNEL_PARAMS, rmCtrlFd),
              offsetof(rm::UVM_REGISTER_CHANNEL_PARAMS, hClient),
              offsetof(rm::UVM_REGISTER_CHANNEL_PARAMS, hChannel)};
    case rm::UVM_UNREGISTER_CHANNEL:
      return branch >= rm::Branch::k590
                 ? Names{kNone, offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590, hClient),
                         offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V590, hChannel)}
                 : Names{kNone, offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535, hClient),
                         offsetof(rm::UVM_UNREGISTER_CHANNEL_PARAMS_V535, hChannel)};
    case rm::UVM_REGISTER_GPU:
      return {offsetof(rm::UVM_REGISTER_GPU_PARAMS, rmCtrlFd),
              offsetof(rm::UVM_REGISTER_GPU_PARAMS, hClient), kNone};
    case rm::UVM_MAP_EXTERNAL_ALLOCATION: {
      const std::size_t tail = rm::UvmMapExternalTail(branch);
      return {tail + offsetof(rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL, rmCtrlFd),
              tail + offsetof(rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL, hClient),
              tail + offsetof(rm::UVM_MAP_EXTERNAL_ALLOCATION_TAIL, hMemory)};
    }
    default:
      return {};
  }
}

}  // namespace

int DecodeUvm(const rm::Abi& abi, std::uint32_t request, std::uint64_t address,
              TenantMemory& memory, Call& call) {
  const rm::UvmRow* row = rm::FindUvm(request);
  const std::uint32_t size = rm::UvmParamSize(abi.branch, request);
  if (row == nullptr || (size == 0 && request != rm::UVM_DEINITIALIZE)) {
    return EINVAL;
  }
  call.uvm_request = request;
  if (size != 0) {
    call.uvm_status = row->status.At(abi.branch);
  }
  call.address = address;
  call.image.resize(size);
  if (size != 0 && !memory.Read(address, call.image.data(), size)) {
    return EFAULT;
  }
  const Names names = NamesOf(abi.branch, request);
  if (names.fd != kNone) {
    FdArgument argument;
    argument.at = names.fd;
    argument.number = Load<std::int32_t>(call.image, names.fd);
    call.fd = argument;
  }
  call.client = names.client == kNone ? 0 : Load<std::uint32_t>(call.image, names.client);
  call.object = names.object == kNone ? 0 : Load<std::uint32_t>(call.image, names.object);
  return 0;
}

}  // namespace cgpu::boundary
