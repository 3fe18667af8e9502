// The handlers of nvidia-uvm's requests.
#ifndef CGPU_SIM_DRIVER_UVM_CALLS_H_
#define CGPU_SIM_DRIVER_UVM_CALLS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "rm/by_branch.h"
#include "sim/driver/caller.h"
#include "sim/model/uvm_model.h"

namespace cgpu::sim {

// One request whose parameters have been read; a handler may change them, all but the status.
struct UvmCall {
  UvmModel& model;
  const rm::Branch branch;
  const FileId file;
  UvmSpace* space;  // nullptr only for the requests that need none
  Caller& caller;
  std::span<std::byte> params;
  // Bytes that are written to the caller's memory after the handler, without the lock. If that
  // fails, the status is NV_ERR_INVALID_ADDRESS.
  rm::NvP64 more_address;
  std::vector<std::byte> more;
};

struct UvmHandler {
  NvStatus (*run)(UvmCall& call) = nullptr;
  rm::NvU32 request = 0;
  bool needs_space = true;
};

// Returns those of uvm_policies.cc, which do not change which memory is taken.
[[nodiscard]] std::span<const UvmHandler> UvmPolicyHandlers();
// Returns nullptr for a request that this driver's nvidia-uvm does not route.
[[nodiscard]] const UvmHandler* FindUvmHandler(rm::NvU32 request);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_DRIVER_UVM_CALLS_H_
