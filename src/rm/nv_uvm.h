// Parameters of nvidia-uvm's ioctls, as far as anything here reads them.
//
// From NVIDIA/open-gpu-kernel-modules kernel-open/nvidia-uvm/uvm_ioctl.h, uvm_linux_ioctl.h and
// uvm_types.h. A request is the bare number of uvm_table.h, which encodes no size; the status is
// in-band (`rmStatus`). uvm_table.h says what changed between branches.
#ifndef CGPU_RM_NV_UVM_H_
#define CGPU_RM_NV_UVM_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

struct NvProcessorUuid {
  NvU8 uuid[16];
  friend bool operator==(const NvProcessorUuid&, const NvProcessorUuid&) = default;
};

inline constexpr NvU64 UVM_INIT_FLAGS_DISABLE_HMM = 0x1;
inline constexpr NvU64 UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE = 0x2;
inline constexpr NvU64 UVM_INIT_FLAGS_MASK = 0x3;

struct UVM_INITIALIZE_PARAMS {
  NvU64 flags;
  NvU32 rmStatus;
  NvU32 padding;
};

struct UVM_REGISTER_GPU_VASPACE_PARAMS {
  NvProcessorUuid gpuUuid;
  NvS32 rmCtrlFd;
  NvHandle hClient;
  NvHandle hVaSpace;
  NvU32 rmStatus;
};

// UNREGISTER_GPU_VASPACE, and UNREGISTER_GPU with `gpu_uuid`.
struct UVM_UNREGISTER_GPU_VASPACE_PARAMS {
  NvProcessorUuid gpuUuid;
  NvU32 rmStatus;
};

struct UVM_REGISTER_CHANNEL_PARAMS {
  NvProcessorUuid gpuUuid;
  NvS32 rmCtrlFd;
  NvHandle hClient;
  NvHandle hChannel;
  NvU64 base;
  NvU64 length;
  NvU32 rmStatus;
  NvU32 padding;
};

// Has no uuid from 590 on.
struct UVM_UNREGISTER_CHANNEL_PARAMS_V535 {
  NvProcessorUuid gpuUuid;
  NvHandle hClient;
  NvHandle hChannel;
  NvU32 rmStatus;
};
struct UVM_UNREGISTER_CHANNEL_PARAMS_V590 {
  NvHandle hClient;
  NvHandle hChannel;
  NvU32 rmStatus;
};

// ENABLE_PEER_ACCESS and DISABLE_PEER_ACCESS.
struct UVM_ENABLE_PEER_ACCESS_PARAMS {
  NvProcessorUuid gpuUuidA;
  NvProcessorUuid gpuUuidB;
  NvU32 rmStatus;
};

struct UvmGpuMappingAttributes {
  NvProcessorUuid gpuUuid;
  NvU32 gpuMappingType;
  NvU32 gpuCachingType;
  NvU32 gpuFormatType;
  NvU32 gpuElementBits;
  NvU32 gpuCompressionType;
};

// MAP_EXTERNAL_ALLOCATION: the head, kUvmMaxGpus of UvmGpuMappingAttributes, the tail.
struct UVM_MAP_EXTERNAL_ALLOCATION_HEAD {
  NvU64 base;
  NvU64 length;
  NvU64 offset;
};
struct UVM_MAP_EXTERNAL_ALLOCATION_TAIL {
  NvU64 gpuAttributesCount;
  NvS32 rmCtrlFd;
  NvHandle hClient;
  NvHandle hMemory;
  NvU32 rmStatus;
};

// ALLOC_SEMAPHORE_POOL: the head, kUvmMaxGpus of UvmGpuMappingAttributes, the tail.
struct UVM_ALLOC_SEMAPHORE_POOL_HEAD {
  NvU64 base;
  NvU64 length;
};
struct UVM_ALLOC_SEMAPHORE_POOL_TAIL {
  NvU64 gpuAttributesCount;
  NvU32 rmStatus;
  NvU32 padding;
};

// The common head of all commands on a range: FREE (without `length` from 590 on),
// CREATE_EXTERNAL_RANGE, VALIDATE_VA_RANGE and the others.
struct UVM_RANGE_HEAD {
  NvU64 base;
  NvU64 length;
};

// MAP_DYNAMIC_PARALLELISM_REGION, UNMAP_EXTERNAL, MAP_EXTERNAL_SPARSE; SET_ACCESSED_BY and
// UNSET_ACCESSED_BY, whose uuid may be the CPU's; the first three fields of SET_PREFERRED_LOCATION.
struct UVM_UNMAP_EXTERNAL_PARAMS {
  NvU64 base;
  NvU64 length;
  NvProcessorUuid gpuUuid;
  NvU32 rmStatus;
  NvU32 padding;
};

struct UVM_REGISTER_GPU_PARAMS {
  NvProcessorUuid gpu_uuid;
  NvU8 numaEnabled;
  NvS32 numaNodeId;
  NvS32 rmCtrlFd;
  NvHandle hClient;
  NvHandle hSmcPartRef;
  NvU32 rmStatus;
};

struct UVM_PAGEABLE_MEM_ACCESS_PARAMS {
  NvU8 pageableMemAccess;
  NvU32 rmStatus;
};

struct UVM_PAGEABLE_MEM_ACCESS_ON_GPU_PARAMS {
  NvProcessorUuid gpu_uuid;
  NvU8 pageableMemAccess;
  NvU32 rmStatus;
};

struct UVM_MIGRATE_PARAMS {
  NvU64 base;
  NvU64 length;
  NvProcessorUuid destinationUuid;
  NvU32 flags;
  NvU64 semaphoreAddress;
  NvU32 semaphorePayload;
  NvS32 cpuNumaNode;
  NvU64 userSpaceStart;
  NvU64 userSpaceLength;
  NvU32 rmStatus;
  NvU32 padding;
};

struct UVM_MIGRATE_RANGE_GROUP_PARAMS {
  NvU64 rangeGroupId;
  NvProcessorUuid destinationUuid;
  NvU32 rmStatus;
  NvU32 padding;
};

struct UVM_MM_INITIALIZE_PARAMS {
  NvS32 uvmFd;
  NvU32 rmStatus;
};

// From 570 on.
struct UVM_ALLOC_DEVICE_P2P_PARAMS {
  NvU64 base;
  NvU64 length;
  NvU64 offset;
  NvProcessorUuid gpuUuid;
  NvS32 rmCtrlFd;
  NvHandle hClient;
  NvHandle hMemory;
  NvU32 rmStatus;
};

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_UVM_H_
