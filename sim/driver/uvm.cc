// /dev/nvidia-uvm: kernel-open/nvidia-uvm/uvm.c uvm_ioctl() and uvm_api.h of the driver.
#include <cerrno>

#include "rm/nv_controls.h"
#include "rm/nv_escape.h"
#include "rm/uvm_table.h"
#include "sim/driver/bytes.h"
#include "sim/driver/driver.h"
#include "sim/driver/uvm_calls.h"

namespace cgpu::sim {

int Driver::UvmIoctl(FileId file, rm::NvU32 request, rm::NvP64 argument, Caller& caller) {
  if (request == rm::UVM_DEINITIALIZE) {
    CountCall("UVM_DEINITIALIZE", false);
    return 0;
  }
  const rm::UvmRow* row = rm::FindUvm(request);
  const UvmHandler* handler = FindUvmHandler(request);
  const rm::NvU32 size = row == nullptr ? 0 : row->size.At(abi_.branch);
  std::vector<std::byte> params(size);
  int error = 0;
  NvStatus status = rm::NV_OK;
  if (handler == nullptr || size == 0) {
    error = EINVAL;  // uvm_test.c uvm_test_ioctl(), with the built-in tests off
  } else if (!caller.Read(argument, params)) {
    error = EFAULT;
  } else {
    status = RunUvm(*handler, file, caller, params);
    Store(std::span(params).subspan(row->status.At(abi_.branch)), status);
    error = caller.Write(argument, params) ? 0 : EFAULT;
  }
  CountCall(row == nullptr ? "uvm " + std::to_string(request) : std::string(row->name),
            error != 0 || status != rm::NV_OK);
  return error;
}

NvStatus Driver::RunUvm(const UvmHandler& handler, FileId file, Caller& caller,
                        std::span<std::byte> params) {
  const bool registers = handler.request == rm::UVM_REGISTER_GPU;
  if (registers || handler.request == rm::UVM_INITIALIZE) {
    caller.LookAhead(registers);
  }
  MutexLock lock(mutex_);
  UvmCall call{uvm_, abi_.branch, file, uvm_.Find(file), caller, params, 0, {}};
  if (handler.needs_space && call.space == nullptr) {
    return rm::NV_ERR_ILLEGAL_ACTION;
  }
  const NvStatus status = handler.run(call);
  TellGpu();
  lock.Unlock();
  if (call.more.empty() || caller.Write(call.more_address, call.more)) {
    return status;
  }
  return rm::NV_ERR_INVALID_ADDRESS;
}

bool Driver::UvmIsIdle() {
  const MutexLock lock(mutex_);
  return uvm_.Empty();
}

std::set<std::uint32_t> Driver::UvmOwners(FileId file) {
  const MutexLock lock(mutex_);
  return uvm_.OwnersOf(file);
}

bool Driver::IsUvmSpace(FileId file) {
  const MutexLock lock(mutex_);
  return uvm_.Find(file) != nullptr;
}

void Driver::SettleUvm(const UvmSeen& seen) {
  const MutexLock lock(mutex_);
  uvm_.Settle(seen);
  TellGpu();
}

bool Driver::AsksForMemory(const Call& call) {
  return call.nr == rm::NV_ESC_RM_VID_HEAP_CONTROL ||
         (call.nr == rm::NV_ESC_RM_CONTROL && (call.control == rm::NV2080_CTRL_CMD_FB_GET_INFO ||
                                               call.control == rm::NV2080_CTRL_CMD_FB_GET_INFO_V2));
}

UvmAccounting Driver::GetUvmAccounting() {
  const MutexLock lock(mutex_);
  return uvm_.GetAccounting();
}

}  // namespace cgpu::sim
