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

// Request numbers whose parameters this project reads; the table has all numbers.
inline constexpr NvU32 UVM_CREATE_RANGE_GROUP = 23;
inline constexpr NvU32 UVM_DESTROY_RANGE_GROUP = 24;
inline constexpr NvU32 UVM_REGISTER_GPU_VASPACE = 25;
inline constexpr NvU32 UVM_UNREGISTER_GPU_VASPACE = 26;
inline constexpr NvU32 UVM_REGISTER_CHANNEL = 27;
inline constexpr NvU32 UVM_UNREGISTER_CHANNEL = 28;
inline constexpr NvU32 UVM_ENABLE_PEER_ACCESS = 29;
inline constexpr NvU32 UVM_DISABLE_PEER_ACCESS = 30;
inline constexpr NvU32 UVM_MAP_EXTERNAL_ALLOCATION = 33;
inline constexpr NvU32 UVM_FREE = 34;
inline constexpr NvU32 UVM_REGISTER_GPU = 37;
inline constexpr NvU32 UVM_UNREGISTER_GPU = 38;
inline constexpr NvU32 UVM_PAGEABLE_MEM_ACCESS = 39;
inline constexpr NvU32 UVM_SET_PREFERRED_LOCATION = 42;
inline constexpr NvU32 UVM_SET_ACCESSED_BY = 46;
inline constexpr NvU32 UVM_UNSET_ACCESSED_BY = 47;
inline constexpr NvU32 UVM_MIGRATE = 51;
inline constexpr NvU32 UVM_MIGRATE_RANGE_GROUP = 53;
inline constexpr NvU32 UVM_MAP_DYNAMIC_PARALLELISM_REGION = 65;
inline constexpr NvU32 UVM_UNMAP_EXTERNAL = 66;
inline constexpr NvU32 UVM_ALLOC_SEMAPHORE_POOL = 68;
inline constexpr NvU32 UVM_CLEAN_UP_ZOMBIE_RESOURCES = 69;
inline constexpr NvU32 UVM_PAGEABLE_MEM_ACCESS_ON_GPU = 70;
inline constexpr NvU32 UVM_VALIDATE_VA_RANGE = 72;
inline constexpr NvU32 UVM_CREATE_EXTERNAL_RANGE = 73;
inline constexpr NvU32 UVM_MAP_EXTERNAL_SPARSE = 74;
inline constexpr NvU32 UVM_MM_INITIALIZE = 75;
inline constexpr NvU32 UVM_ALLOC_DEVICE_P2P = 78;
inline constexpr NvU32 UVM_INITIALIZE = 0x30000001;
inline constexpr NvU32 UVM_DEINITIALIZE = 0x30000002;

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
