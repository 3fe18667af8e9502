// Allocation parameters of RM classes (what NVOS21/NVOS64.pAllocParms points to).
//
// From NVIDIA/open-gpu-kernel-modules, the reference releases of abi.h:
// src/common/sdk/nvidia/inc/nvos.h, alloc/alloc_channel.h and class/*.h. Which class takes which:
// class_table.h.
#ifndef CGPU_RM_NV_ALLOC_H_
#define CGPU_RM_NV_ALLOC_H_

#include <cstddef>

#include "rm/nv_types.h"

namespace cgpu::rm {

// Client handles: the number that the driver adds to its own when it chooses one, and the number
// above which it begins again. src/nvidia/inc/libraries/resserv/resserv.h
inline constexpr NvHandle RS_CLIENT_HANDLE_BASE = 0xc1d00000;
inline constexpr NvHandle RS_CLIENT_INTERNAL_HANDLE_BASE = 0xc1e00000;
inline constexpr NvU32 RS_CLIENT_HANDLE_MAX = 0x100000;

// Class NV01_MEMORY_LOCAL_USER and its relatives. `size` is also an output. nvos.h
struct NV_MEMORY_ALLOCATION_PARAMS {
  NvU32 owner;
  NvU32 type;
  NvU32 flags;
  NvU32 width;
  NvU32 height;
  NvS32 pitch;
  NvU32 attr;
  NvU32 attr2;
  NvU32 format;
  NvU32 comprCovg;
  NvU32 zcullCovg;
  NvU64 rangeLo;
  NvU64 rangeHi;
  NvU64 size;
  NvU64 alignment;
  NvU64 offset;
  NvU64 limit;
  NvP64 address;
  NvU32 ctagOffset;
  NvHandle hVASpace;
  NvU32 internalflags;
  NvU32 tag;
  NvS32 numaNode;
};
static_assert(sizeof(NV_MEMORY_ALLOCATION_PARAMS) == 128);

struct NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS {  // class/cl0070.h
  NvU64 offset;
  NvU64 limit;
  NvHandle hVASpace;
};
static_assert(sizeof(NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS) == 24);

// class/cl0000.h. RM_ALLOC of a client does not take this: its parameter is one NvHandle, optional.
struct NV0000_ALLOC_PARAMETERS_V535 {
  NvHandle hClient;
  NvU32 processID;
  char processName[100];
};
static_assert(sizeof(NV0000_ALLOC_PARAMETERS_V535) == 108);
struct NV0000_ALLOC_PARAMETERS_V570 {
  NvHandle hClient;
  NvU32 processID;
  char processName[100];
  NvP64 pOsPidInfo;
};
static_assert(sizeof(NV0000_ALLOC_PARAMETERS_V570) == 120);

struct NV0005_ALLOC_PARAMETERS {  // events; class/cl0005.h
  NvHandle hParentClient;
  NvHandle hSrcResource;
  NvV32 hClass;
  NvV32 notifyIndex;
  NvP64 data;  // NV01_EVENT_OS_EVENT: a file descriptor number
};
static_assert(sizeof(NV0005_ALLOC_PARAMETERS) == 24);

struct NV0080_ALLOC_PARAMETERS {  // NV01_DEVICE_0; class/cl0080.h
  NvU32 deviceId;
  NvHandle hClientShare;
  NvHandle hTargetClient;
  NvHandle hTargetDevice;
  NvV32 flags;
  NvU64 vaSpaceSize;
  NvU64 vaStartInternal;
  NvU64 vaLimitInternal;
  NvV32 vaMode;
};
static_assert(sizeof(NV0080_ALLOC_PARAMETERS) == 56);

struct NV2080_ALLOC_PARAMETERS {  // NV20_SUBDEVICE_0; class/cl2080.h
  NvU32 subDeviceId;
};
static_assert(sizeof(NV2080_ALLOC_PARAMETERS) == 4);

struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {  // KEPLER_CHANNEL_GROUP_A; nvos.h
  NvHandle hObjectError;
  NvHandle hObjectEccError;
  NvHandle hVASpace;
  NvU32 engineType;  // NV2080_ENGINE_TYPE_*
  NvBool bIsCallingContextVgpuPlugin;
};
static_assert(sizeof(NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS) == 20);

// From class/cl2080_notification.h:
inline constexpr NvU32 NV2080_ENGINE_TYPE_NULL = 0;
inline constexpr NvU32 NV2080_ENGINE_TYPE_GRAPHICS = 1;
inline constexpr NvU32 NV2080_ENGINE_TYPE_COPY0 = 9;

// Offset of the field in NV_BSP_, NV_MSENC_, NV_NVJPG_ and NV_OFA_ALLOCATION_PARAMETERS; nvos.h
inline constexpr std::size_t kProhibitMultipleInstances = 4;

struct NVA0BC_ALLOC_PARAMETERS {  // NVENC_SW_SESSION; class/cla0bc.h
  NvU32 codecType;
  NvU32 hResolution;
  NvU32 vResolution;
  NvU32 version;  // hMem counts from NVA0BC_ALLOC_PARAMS_VER_1 on
  NvHandle hMem;
};
static_assert(sizeof(NVA0BC_ALLOC_PARAMETERS) == 20);
inline constexpr NvU32 NVA0BC_ALLOC_PARAMS_VER_1 = 1;

struct NV_MEMORY_DESC_PARAMS {
  NvU64 base;
  NvU64 size;
  NvU32 addressSpace;
  NvU32 cacheAttrib;
};
static_assert(sizeof(NV_MEMORY_DESC_PARAMS) == 24);

// The channel classes; alloc/alloc_channel.h. 570 appends tpcConfigID, and 610 puts hHandleVASpace
// into the middle. channel_params.h reads and writes either.
struct NV_CHANNEL_ALLOC_PARAMS_V535 {
  NvHandle hObjectError;
  NvHandle hObjectBuffer;
  NvU64 gpFifoOffset;
  NvU32 gpFifoEntries;
  NvU32 flags;
  NvHandle hContextShare;
  NvHandle hVASpace;
  NvHandle hUserdMemory[8];
  NvU64 userdOffset[8];
  NvU32 engineType;
  NvU32 cid;
  NvU32 subDeviceId;
  NvHandle hObjectEccError;
  NV_MEMORY_DESC_PARAMS instanceMem;
  NV_MEMORY_DESC_PARAMS userdMem;
  NV_MEMORY_DESC_PARAMS ramfcMem;
  NV_MEMORY_DESC_PARAMS mthdbufMem;
  NvHandle hPhysChannelGroup;
  NvU32 internalFlags;
  NV_MEMORY_DESC_PARAMS errorNotifierMem;
  NV_MEMORY_DESC_PARAMS eccErrorNotifierMem;
  NvU32 ProcessID;
  NvU32 SubProcessID;
  NvU32 encryptIv[3];
  NvU32 decryptIv[3];
  NvU32 hmacNonce[8];
};
static_assert(sizeof(NV_CHANNEL_ALLOC_PARAMS_V535) == 360);
struct NV_CHANNEL_ALLOC_PARAMS_V570 {
  NV_CHANNEL_ALLOC_PARAMS_V535 v535;
  NvU32 tpcConfigID;
};
static_assert(sizeof(NV_CHANNEL_ALLOC_PARAMS_V570) == 368);
struct NV_CHANNEL_ALLOC_PARAMS_V610 {
  NvHandle hObjectError;
  NvHandle hObjectBuffer;
  NvU64 gpFifoOffset;
  NvU32 gpFifoEntries;
  NvU32 flags;
  NvHandle hContextShare;
  NvHandle hVASpace;
  NvHandle hHandleVASpace;  // no release up to 610.57.04 reads it
  NvHandle hUserdMemory[8];
  NvU64 userdOffset[8];
  NvU32 engineType;
  NvU32 cid;
  NvU32 subDeviceId;
  NvHandle hObjectEccError;
  NV_MEMORY_DESC_PARAMS instanceMem;
  NV_MEMORY_DESC_PARAMS userdMem;
  NV_MEMORY_DESC_PARAMS ramfcMem;
  NV_MEMORY_DESC_PARAMS mthdbufMem;
  NvHandle hPhysChannelGroup;
  NvU32 internalFlags;
  NV_MEMORY_DESC_PARAMS errorNotifierMem;
  NV_MEMORY_DESC_PARAMS eccErrorNotifierMem;
  NvU32 ProcessID;
  NvU32 SubProcessID;
  NvU32 encryptIv[3];
  NvU32 decryptIv[3];
  NvU32 hmacNonce[8];
  NvU32 tpcConfigID;
};
static_assert(sizeof(NV_CHANNEL_ALLOC_PARAMS_V610) == 376);

// Kinds of address space; nvos.h. The global one is the GPU's, shared by all clients that name it.
inline constexpr NvU32 NV_VASPACE_ALLOCATION_INDEX_GPU_NEW = 0;
inline constexpr NvU32 NV_VASPACE_ALLOCATION_INDEX_GPU_HOST = 1;
inline constexpr NvU32 NV_VASPACE_ALLOCATION_INDEX_GPU_GLOBAL = 2;
inline constexpr NvU32 NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE = 3;

struct NV_VASPACE_ALLOCATION_PARAMETERS_V535 {  // FERMI_VASPACE_A; nvos.h. 580 appends pasid
  NvU32 index;
  NvV32 flags;
  NvU64 vaSize;
  NvU64 vaStartInternal;
  NvU64 vaLimitInternal;
  NvU32 bigPageSize;
  NvU64 vaBase;
};
static_assert(sizeof(NV_VASPACE_ALLOCATION_PARAMETERS_V535) == 48);
struct NV_VASPACE_ALLOCATION_PARAMETERS_V580 {
  NV_VASPACE_ALLOCATION_PARAMETERS_V535 v535;
  NvU32 pasid;
};
static_assert(sizeof(NV_VASPACE_ALLOCATION_PARAMETERS_V580) == 56);

struct NV_CTXSHARE_ALLOCATION_PARAMETERS {  // FERMI_CONTEXT_SHARE_A; nvos.h
  NvHandle hVASpace;
  NvU32 flags;
  NvU32 subctxId;
};
static_assert(sizeof(NV_CTXSHARE_ALLOCATION_PARAMETERS) == 12);

struct NV_HOPPER_USERMODE_A_PARAMS {  // HOPPER_USERMODE_A; nvos.h
  NvBool bBar1Mapping;
  NvBool bPriv;
};
static_assert(sizeof(NV_HOPPER_USERMODE_A_PARAMS) == 2);

struct NV00DE_ALLOC_PARAMETERS {  // RM_USER_SHARED_DATA; class/cl00de.h
  NvU64 polledDataMask;
};
static_assert(sizeof(NV00DE_ALLOC_PARAMETERS) == 8);

struct NV_CONTEXT_DMA_ALLOCATION_PARAMS {  // NV01_CONTEXT_DMA; nvos.h
  NvHandle hSubDevice;
  NvV32 flags;
  NvHandle hMemory;
  NvU64 offset;
  NvU64 limit;
};
static_assert(sizeof(NV_CONTEXT_DMA_ALLOCATION_PARAMS) == 32);

struct NV_OS_DESC_MEMORY_ALLOCATION_PARAMS {  // NV01_MEMORY_SYSTEM_OS_DESCRIPTOR; nvos.h
  NvU32 type;
  NvU32 flags;
  NvU32 attr;
  NvU32 attr2;
  NvP64 descriptor;
  NvU64 limit;
  NvU32 descriptorType;
  NvU32 tag;
};
static_assert(sizeof(NV_OS_DESC_MEMORY_ALLOCATION_PARAMS) == 40);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_ALLOC_H_
