// The ioctls of nvidia-uvm and nvidia-uvm-tools: one row per request number.
//
// Pure data and look-ups; thread-safe.
#ifndef CGPU_RM_UVM_TABLE_H_
#define CGPU_RM_UVM_TABLE_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "rm/by_branch.h"
#include "rm/nv_uvm.h"

namespace cgpu::rm {

// Numbers of the requests. One line there is both the number here and the row below.
#define CGPU_UVM(name, number, ...) inline constexpr NvU32 name = number;
#include "rm/uvm.inc"
#undef CGPU_UVM

struct UvmRow {
  NvU32 request;
  std::string_view name;
  ByBranch size;    // of the parameters; 0: the branch has no such request, or it has none
  ByBranch status;  // offset of rmStatus in them
};

// Returns the rows in ascending order of request: the numbers that nvidia-uvm and nvidia-uvm-tools
// route (kernel-open/nvidia-uvm/uvm.c, uvm_tools.c), with sizes from their headers.
[[nodiscard]] std::span<const UvmRow> UvmRows();
[[nodiscard]] const UvmRow* FindUvm(NvU32 request);
// Returns 0 when the request is unknown, this branch has no such request, or it has no parameters.
[[nodiscard]] NvU32 UvmParamSize(Branch branch, NvU32 request);

// Built-in tests of nvidia-uvm, reachable when the module was loaded with uvm_enable_builtin_tests
// (kernel-open/nvidia-uvm/uvm_test_ioctl.h: UVM_TEST_IOCTL_BASE).
inline constexpr NvU32 kUvmTestFirst = 200;
inline constexpr NvU32 kUvmTestLast = 311;

// Entries of a perGpuAttributes array: UVM_MAX_GPUS_V1, then UVM_MAX_GPUS_V2.
inline constexpr ByBranch kUvmMaxGpus = {32, {{Branch::k550, 256}}};

// Return the offsets of the tails of MAP_EXTERNAL_ALLOCATION and ALLOC_SEMAPHORE_POOL.
[[nodiscard]] constexpr std::size_t UvmMapExternalTail(Branch branch) {
  return sizeof(UVM_MAP_EXTERNAL_ALLOCATION_HEAD) +
         kUvmMaxGpus.At(branch) * sizeof(UvmGpuMappingAttributes);
}
[[nodiscard]] constexpr std::size_t UvmSemaphorePoolTail(Branch branch) {
  return sizeof(UVM_ALLOC_SEMAPHORE_POOL_HEAD) +
         kUvmMaxGpus.At(branch) * sizeof(UvmGpuMappingAttributes);
}

}  // namespace cgpu::rm

#endif  // CGPU_RM_UVM_TABLE_H_
