// Parameter structures of the driver's ioctls, laid out as the driver's compiler lays them out.
//
// From NVIDIA/open-gpu-kernel-modules, the reference releases of abi.h:
// src/common/sdk/nvidia/inc/nvos.h, src/nvidia/arch/nvalloc/unix/include/nv-ioctl.h,
// nv-ioctl-numa.h and nv-unix-nvos-params-wrappers.h. A structure that changed between branches
// carries in its name the first branch that lays it out so (_V535 the oldest, _V580 from 580 on);
// one that only grew at its end may be here in its longest form. Which size a branch takes stands
// in the tables. Of structures needed only for their size (I2C, registry, NUMA), escape_table.cc
// has the size. Class parameters are in nv_alloc.h, control parameters in nv_ctrl.h.
#ifndef CGPU_RM_NV_STRUCTS_H_
#define CGPU_RM_NV_STRUCTS_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

struct NVOS00_PARAMETERS {  // NV_ESC_RM_FREE
  NvHandle hRoot;
  NvHandle hObjectParent;
  NvHandle hObjectOld;
  NvV32 status;
};
static_assert(sizeof(NVOS00_PARAMETERS) == 16);

struct NVOS02_PARAMETERS {  // NV_ESC_RM_ALLOC_MEMORY
  NvHandle hRoot;
  NvHandle hObjectParent;
  NvHandle hObjectNew;
  NvV32 hClass;
  NvV32 flags;
  NvP64 pMemory;
  NvU64 limit;
  NvV32 status;
};
static_assert(sizeof(NVOS02_PARAMETERS) == 48);
inline constexpr BitField NVOS02_FLAGS_MAPPING{31, 30};
inline constexpr NvU32 NVOS02_FLAGS_MAPPING_NO_MAP = 1;

struct nv_ioctl_nvos02_parameters_with_fd {
  NVOS02_PARAMETERS params;
  NvS32 fd;
};
static_assert(sizeof(nv_ioctl_nvos02_parameters_with_fd) == 56);

struct NVOS05_PARAMETERS {  // NV_ESC_RM_ALLOC_OBJECT
  NvHandle hRoot;
  NvHandle hObjectParent;
  NvHandle hObjectNew;
  NvV32 hClass;
  NvV32 status;
};
static_assert(sizeof(NVOS05_PARAMETERS) == 20);

// NV_ESC_RM_ALLOC, short form. The driver copies as many bytes from pAllocParms as its class table
// says (ClassParamSize()), whatever paramsSize says; NULL is allowed where the table says optional.
struct NVOS21_PARAMETERS {
  NvHandle hRoot;
  NvHandle hObjectParent;
  NvHandle hObjectNew;
  NvV32 hClass;
  NvP64 pAllocParms;
  NvU32 paramsSize;
  NvV32 status;
};
static_assert(sizeof(NVOS21_PARAMETERS) == 32);

struct NVOS64_PARAMETERS {  // NV_ESC_RM_ALLOC, long form; told from the short one by its size
  NvHandle hRoot;
  NvHandle hObjectParent;
  NvHandle hObjectNew;
  NvV32 hClass;
  NvP64 pAllocParms;
  NvP64 pRightsRequested;  // RS_ACCESS_MASK or NULL
  NvU32 paramsSize;
  NvU32 flags;
  NvV32 status;
};
static_assert(sizeof(NVOS64_PARAMETERS) == 48);
inline constexpr NvU32 NVOS64_FLAGS_FINN_SERIALIZED = 1;

struct NVOS30_PARAMETERS {  // NV_ESC_RM_IDLE_CHANNELS
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hChannel;
  NvV32 numChannels;
  NvP64 phClients;
  NvP64 phDevices;
  NvP64 phChannels;
  NvV32 flags;
  NvV32 timeout;
  NvV32 status;
};
static_assert(sizeof(NVOS30_PARAMETERS) == 56);
inline constexpr BitField NVOS30_FLAGS_CHANNEL{7, 4};
inline constexpr NvU32 NVOS30_FLAGS_CHANNEL_LIST = 0;

// NV_ESC_RM_VID_HEAP_CONTROL: `function` says which view of `data` is valid.
inline constexpr NvU32 NVOS32_FUNCTION_ALLOC_SIZE = 2;
inline constexpr NvU32 NVOS32_FUNCTION_FREE = 3;
inline constexpr NvU32 NVOS32_FUNCTION_INFO = 5;
inline constexpr NvU32 NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT = 6;
inline constexpr NvU32 NVOS32_FUNCTION_DUMP = 11;
inline constexpr NvU32 NVOS32_FUNCTION_ALLOC_SIZE_RANGE = 14;
inline constexpr NvU32 NVOS32_FUNCTION_REACQUIRE_COMPR = 15;
inline constexpr NvU32 NVOS32_FUNCTION_RELEASE_COMPR = 16;
inline constexpr NvU32 NVOS32_FUNCTION_GET_MEM_ALIGNMENT = 18;
inline constexpr NvU32 NVOS32_FUNCTION_HW_ALLOC = 19;
inline constexpr NvU32 NVOS32_FUNCTION_HW_FREE = 20;
inline constexpr NvU32 NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR = 27;

struct NVOS32_ALLOC_SIZE {
  NvU32 owner;
  NvHandle hMemory;
  NvU32 type;
  NvU32 flags;
  NvU32 attr;
  NvU32 format;
  NvU32 comprCovg;
  NvU32 zcullCovg;
  NvU32 partitionStride;
  NvU32 width;
  NvU32 height;
  NvU64 size;
  NvU64 alignment;
  NvU64 offset;
  NvU64 limit;
  NvP64 address;
  NvU64 rangeBegin;
  NvU64 rangeEnd;
  NvU32 attr2;
  NvU32 ctagOffset;
  NvS32 numaNode;
};

struct NVOS32_FREE {
  NvU32 owner;
  NvHandle hMemory;
  NvU32 flags;
};

struct NVOS32_INFO {
  NvU32 attr;
  NvU64 offset;
  NvU64 size;
  NvU64 base;
};

struct NVOS32_PARAMETERS {
  NvHandle hRoot;
  NvHandle hObjectParent;
  NvU32 function;
  NvHandle hVASpace;
  NvS16 ivcHeapNumber;
  NvV32 status;
  NvU64 total;
  NvU64 free;
  union {
    NVOS32_ALLOC_SIZE AllocSize;
    NVOS32_FREE Free;
    NVOS32_INFO Info;
    NvU8 raw[144];
  } data;
};
static_assert(sizeof(NVOS32_PARAMETERS) == 184);

// NVOS32_ATTR_*, the `attr` word of an allocation (nvos.h).
inline constexpr BitField NVOS32_ATTR_COMPR{13, 12};
inline constexpr BitField NVOS32_ATTR_PAGE_SIZE{24, 23};
inline constexpr NvU32 NVOS32_ATTR_PAGE_SIZE_DEFAULT = 0;
inline constexpr NvU32 NVOS32_ATTR_PAGE_SIZE_4KB = 1;
inline constexpr NvU32 NVOS32_ATTR_PAGE_SIZE_BIG = 2;
inline constexpr NvU32 NVOS32_ATTR_PAGE_SIZE_HUGE = 3;
inline constexpr BitField NVOS32_ATTR_LOCATION{26, 25};
inline constexpr NvU32 NVOS32_ATTR_LOCATION_VIDMEM = 0;
inline constexpr NvU32 NVOS32_ATTR_LOCATION_PCI = 1;
inline constexpr NvU32 NVOS32_ATTR_LOCATION_ANY = 3;
inline constexpr BitField NVOS32_ATTR_PHYSICALITY{28, 27};
inline constexpr NvU32 NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS = 1;
inline constexpr NvU32 NVOS32_ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS = 3;
inline constexpr BitField NVOS32_ATTR_COHERENCY{31, 29};
inline constexpr NvU32 NVOS32_ATTR_COHERENCY_WRITE_BACK = 5;
// NVOS32_ATTR2_*, the `attr2` word. PAGE_SIZE_HUGE_256GB exists from 580.
inline constexpr BitField NVOS32_ATTR2_PAGE_SIZE_HUGE{21, 20};
inline constexpr NvU32 NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB = 2;
inline constexpr NvU32 NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB = 3;
inline constexpr BitField NVOS32_ATTR2_PROTECTION_USER{22, 22};
inline constexpr NvU32 NVOS32_ATTR2_PROTECTION_USER_READ_ONLY = 1;
inline constexpr BitField NVOS32_ATTR2_USE_EGM{24, 24};
// NVOS32_ALLOC_FLAGS_*, the `flags` word.
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE = 0x00000010;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE = 0x00000100;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED = 0x00004000;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_MAP_NOT_REQUIRED = 0x00008000;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_PERSISTENT_VIDMEM = 0x00010000;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_USE_BEGIN_END = 0x00020000;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_VIRTUAL = 0x00080000;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_LAZY = 0x00000400;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED = 0x00400000;
inline constexpr NvU32 NVOS32_ALLOC_FLAGS_SPARSE = 0x04000000;
inline constexpr NvU32 NVOS32_TYPE_IMAGE = 0;

struct NVOS33_PARAMETERS {  // NV_ESC_RM_MAP_MEMORY
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hMemory;
  NvU64 offset;
  NvU64 length;
  NvP64 pLinearAddress;
  NvU32 status;
  NvU32 flags;
};
static_assert(sizeof(NVOS33_PARAMETERS) == 48);
inline constexpr BitField NVOS33_FLAGS_ACCESS{1, 0};
inline constexpr NvU32 NVOS33_FLAGS_ACCESS_READ_ONLY = 1;
inline constexpr BitField NVOS33_FLAGS_CACHING_TYPE{25, 23};

struct nv_ioctl_nvos33_parameters_with_fd {
  NVOS33_PARAMETERS params;
  NvS32 fd;
};
static_assert(sizeof(nv_ioctl_nvos33_parameters_with_fd) == 56);

struct NVOS34_PARAMETERS {  // NV_ESC_RM_UNMAP_MEMORY
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hMemory;
  NvP64 pLinearAddress;
  NvU32 status;
  NvU32 flags;
};
static_assert(sizeof(NVOS34_PARAMETERS) == 32);

struct NVOS39_PARAMETERS {  // NV_ESC_RM_ALLOC_CONTEXT_DMA2
  NvHandle hObjectParent;
  NvHandle hSubDevice;
  NvHandle hObjectNew;
  NvV32 hClass;
  NvV32 flags;
  NvU32 selector;
  NvHandle hMemory;
  NvU64 offset;
  NvU64 limit;
  NvV32 status;
};
static_assert(sizeof(NVOS39_PARAMETERS) == 56);

struct NVOS41_PARAMETERS {  // NV_ESC_RM_GET_EVENT_DATA
  NvP64 pEvent;
  NvV32 MoreEvents;
  NvV32 status;
};
static_assert(sizeof(NVOS41_PARAMETERS) == 16);

struct NvUnixEvent {  // what NVOS41_PARAMETERS::pEvent leads to; nvos.h
  NvHandle hObject;
  NvV32 NotifyIndex;
  NvV32 info32;
  NvU16 info16;
};
static_assert(sizeof(NvUnixEvent) == 16);
inline constexpr NvU32 NV2080_NOTIFIERS_RC_ERROR = 37;  // class/cl2080_notification.h

// NVOS46_FLAGS_*, the `flags` word of a mapping.
inline constexpr BitField NVOS46_FLAGS_PAGE_SIZE{11, 8};
inline constexpr NvU32 NVOS46_FLAGS_PAGE_SIZE_4KB = 1;
inline constexpr NvU32 NVOS46_FLAGS_PAGE_SIZE_BIG = 2;
inline constexpr NvU32 NVOS46_FLAGS_PAGE_SIZE_BOTH = 3;
inline constexpr NvU32 NVOS46_FLAGS_PAGE_SIZE_HUGE = 4;
inline constexpr NvU32 NVOS46_FLAGS_PAGE_SIZE_512M = 5;
inline constexpr BitField NVOS46_FLAGS_DMA_OFFSET_FIXED{15, 15};

struct NVOS46_PARAMETERS_V535 {  // NV_ESC_RM_MAP_MEMORY_DMA
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hDma;
  NvHandle hMemory;
  NvU64 offset;
  NvU64 length;
  NvV32 flags;
  NvU64 dmaOffset;
  NvV32 status;
};
static_assert(sizeof(NVOS46_PARAMETERS_V535) == 56);

struct NVOS46_PARAMETERS_V580 {
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hDma;
  NvHandle hMemory;
  NvU64 offset;
  NvU64 length;
  NvV32 flags;
  NvV32 flags2;
  NvV32 kindOverride;
  NvU64 dmaOffset;
  NvV32 status;
};
static_assert(sizeof(NVOS46_PARAMETERS_V580) == 64);

struct NVOS47_PARAMETERS_V535 {  // NV_ESC_RM_UNMAP_MEMORY_DMA
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hDma;
  NvHandle hMemory;
  NvV32 flags;
  NvU64 dmaOffset;
  NvV32 status;
};
static_assert(sizeof(NVOS47_PARAMETERS_V535) == 40);
struct NVOS47_PARAMETERS_V550 {
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hDma;
  NvHandle hMemory;
  NvV32 flags;
  NvU64 dmaOffset;
  NvU64 size;
  NvV32 status;
};
static_assert(sizeof(NVOS47_PARAMETERS_V550) == 48);

struct NVOS49_PARAMETERS {  // NV_ESC_RM_BIND_CONTEXT_DMA
  NvHandle hClient;
  NvHandle hChannel;
  NvHandle hCtxDma;
  NvV32 status;
};
static_assert(sizeof(NVOS49_PARAMETERS) == 16);

struct NVOS54_PARAMETERS {  // NV_ESC_RM_CONTROL
  NvHandle hClient;
  NvHandle hObject;
  NvV32 cmd;
  NvU32 flags;
  NvP64 params;
  NvU32 paramsSize;
  NvV32 status;
};
static_assert(sizeof(NVOS54_PARAMETERS) == 32);
// The parameters are another encoding of themselves (src/nvidia/src/kernel/rmapi/rmapi_finn.c).
inline constexpr NvU32 NVOS54_FLAGS_FINN_SERIALIZED = 4;

struct NVOS55_PARAMETERS {  // NV_ESC_RM_DUP_OBJECT
  NvHandle hClient;
  NvHandle hParent;
  NvHandle hObject;
  NvHandle hClientSrc;
  NvHandle hObjectSrc;
  NvU32 flags;
  NvU32 status;
};
static_assert(sizeof(NVOS55_PARAMETERS) == 28);
inline constexpr NvU32 NV04_DUP_HANDLE_FLAGS_NONE = 0;

struct NVOS56_PARAMETERS {  // NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO
  NvHandle hClient;
  NvHandle hDevice;
  NvHandle hMemory;
  NvP64 pOldCpuAddress;
  NvP64 pNewCpuAddress;
  NvV32 status;
};
static_assert(sizeof(NVOS56_PARAMETERS) == 40);

// From src/common/sdk/nvidia/inc/rs_access.h:
struct RS_ACCESS_MASK {
  NvU32 limbs[1];
};
inline constexpr NvU32 RS_ACCESS_DUP_OBJECT = 0;
struct RS_SHARE_POLICY {
  NvU32 target;
  RS_ACCESS_MASK accessMask;
  NvU16 type;  // RS_SHARE_TYPE_*
  NvU8 action;
};
static_assert(sizeof(RS_SHARE_POLICY) == 12);
inline constexpr NvU16 RS_SHARE_TYPE_ALL = 1;
inline constexpr NvU16 RS_SHARE_TYPE_OS_SECURITY_TOKEN = 2;
inline constexpr NvU16 RS_SHARE_TYPE_CLIENT = 3;
inline constexpr NvU16 RS_SHARE_TYPE_PID = 4;
inline constexpr NvU16 RS_SHARE_TYPE_SMC_PARTITION = 5;
inline constexpr NvU16 RS_SHARE_TYPE_GPU = 6;
inline constexpr NvU16 RS_SHARE_TYPE_FM_CLIENT = 7;
inline constexpr NvU8 RS_SHARE_ACTION_FLAG_REVOKE = 1;
inline constexpr NvU8 RS_SHARE_ACTION_FLAG_REQUIRE = 2;
inline constexpr NvU8 RS_SHARE_ACTION_FLAG_COMPOSE = 4;

struct NVOS57_PARAMETERS {  // NV_ESC_RM_SHARE
  NvHandle hClient;
  NvHandle hObject;
  RS_SHARE_POLICY sharePolicy;
  NvU32 status;
};
static_assert(sizeof(NVOS57_PARAMETERS) == 24);

// From nv-ioctl.h:
struct nv_pci_info_t {
  NvU32 domain;
  NvU8 bus;
  NvU8 slot;
  NvU8 function;
  NvU16 vendor_id;
  NvU16 device_id;
};
static_assert(sizeof(nv_pci_info_t) == 12);

struct nv_ioctl_xfer_t {  // NV_ESC_IOCTL_XFER_CMD
  NvU32 cmd;
  NvU32 size;
  NvP64 ptr;
};
static_assert(sizeof(nv_ioctl_xfer_t) == 16);

struct nv_ioctl_card_info_t {  // NV_ESC_CARD_INFO passes an array of these
  NvBool valid;
  nv_pci_info_t pci_info;
  NvU32 gpu_id;
  NvU16 interrupt_line;
  NvU64 reg_address;
  NvU64 reg_size;
  NvU64 fb_address;
  NvU64 fb_size;
  NvU32 minor_number;
  NvU8 dev_name[10];
};
static_assert(sizeof(nv_ioctl_card_info_t) == 72);

struct nv_ioctl_alloc_os_event_t {  // NV_ESC_ALLOC_OS_EVENT
  NvHandle hClient;
  NvHandle hDevice;
  NvU32 fd;
  NvU32 Status;
};
static_assert(sizeof(nv_ioctl_alloc_os_event_t) == 16);

struct nv_ioctl_free_os_event_t {  // NV_ESC_FREE_OS_EVENT
  NvHandle hClient;
  NvHandle hDevice;
  NvU32 fd;
  NvU32 Status;
};
static_assert(sizeof(nv_ioctl_free_os_event_t) == 16);

struct nv_ioctl_status_code_t {  // NV_ESC_STATUS_CODE
  NvU32 domain;
  NvU8 bus;
  NvU8 slot;
  NvU32 status;
};
static_assert(sizeof(nv_ioctl_status_code_t) == 12);

struct nv_ioctl_rm_api_version_t {  // NV_ESC_CHECK_VERSION_STR
  NvU32 cmd;                        // NV_RM_API_VERSION_CMD_*
  NvU32 reply;
  char versionString[64];
};
static_assert(sizeof(nv_ioctl_rm_api_version_t) == 72);
inline constexpr NvU32 NV_RM_API_VERSION_CMD_RELAXED = '1';
inline constexpr NvU32 NV_RM_API_VERSION_CMD_QUERY = '2';
inline constexpr NvU32 NV_RM_API_VERSION_REPLY_RECOGNIZED = 1;

struct nv_ioctl_sys_params_t {  // NV_ESC_SYS_PARAMS
  NvU64 memblock_size;
};
static_assert(sizeof(nv_ioctl_sys_params_t) == 8);

struct nv_ioctl_register_fd_t {  // NV_ESC_REGISTER_FD
  NvS32 ctl_fd;
};
static_assert(sizeof(nv_ioctl_register_fd_t) == 4);

struct nv_ioctl_wait_open_complete_t {  // NV_ESC_WAIT_OPEN_COMPLETE
  NvS32 rc;
  NvU32 adapterStatus;
};
static_assert(sizeof(nv_ioctl_wait_open_complete_t) == 8);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_STRUCTS_H_
