// Parameters of RM controls (what NVOS54.params points to).
//
// From NVIDIA/open-gpu-kernel-modules, the reference releases of abi.h,
// src/common/sdk/nvidia/inc/ctrl/: the file of each group is named. A structure that changed
// between branches is named as in nv_structs.h. The driver refuses a control whose paramsSize is
// not its table's (NV_ERR_INVALID_PARAM_STRUCT,
// src/nvidia/src/libraries/resserv/src/rs_resource.c).
#ifndef CGPU_RM_NV_CTRL_H_
#define CGPU_RM_NV_CTRL_H_

#include "rm/nv_structs.h"
#include "rm/nv_types.h"

namespace cgpu::rm {

// ---- ctrl0000/ctrl0000gpu.h
inline constexpr NvU32 NV0000_CTRL_GPU_MAX_ATTACHED_GPUS = 32;
inline constexpr NvU32 NV0000_CTRL_GPU_INVALID_ID = 0xFFFFFFFF;
inline constexpr NvU32 NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS = 0x0000FFFF;

struct NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS {
  NvU32 gpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS) == 128);

struct NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V535 {
  NvU32 gpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
  NvU32 excludedGpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V535) == 256);
struct NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V580 {
  NvU32 gpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
  NvU32 excludedGpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
  NvU32 gpuFlags[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V580) == 384);

struct NV0000_CTRL_GPU_GET_ID_INFO_PARAMS {
  NvU32 gpuId;
  NvU32 gpuFlags;
  NvU32 deviceInstance;
  NvU32 subDeviceInstance;
  NvP64 szName;  // embedded pointer; the driver does not write through it
  NvU32 sliStatus;
  NvU32 boardId;
  NvU32 gpuInstance;
  NvS32 numaId;
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_ID_INFO_PARAMS) == 40);

struct NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {
  NvU32 gpuId;
  NvU32 gpuFlags;
  NvU32 deviceInstance;
  NvU32 subDeviceInstance;
  NvU32 sliStatus;
  NvU32 boardId;
  NvU32 gpuInstance;
  NvS32 numaId;
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS) == 32);

struct NV0000_CTRL_GPU_ACTIVE_DEVICE {
  NvU32 gpuId;
  NvU32 gpuInstanceId;      // NV0000_CTRL_GPU_INVALID_ID without MIG
  NvU32 computeInstanceId;  // the same
};
struct NV0000_CTRL_GPU_GET_ACTIVE_DEVICE_IDS_PARAMS {
  NvU32 numDevices;
  NV0000_CTRL_GPU_ACTIVE_DEVICE devices[256];
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_ACTIVE_DEVICE_IDS_PARAMS) == 3076);

struct NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS {
  NvU32 gpuId;
  NvU32 domain;
  NvU16 bus;
  NvU16 slot;
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS) == 12);

// Flag words of the UUID and GID queries: format and hash.
inline constexpr NvU32 kUuidFormatAscii = 0;  // "GPU-xxxxxxxx-...", NUL-terminated
inline constexpr NvU32 kUuidFormatBinary = 2;
inline constexpr BitField kUuidFormatField{1, 0};

struct NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS {
  NvU8 gpuUuid[256];
  NvU32 flags;
  NvU32 gpuId;
  NvU32 deviceInstance;
  NvU32 subdeviceInstance;
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS) == 272);

struct NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS {
  NvU32 gpuId;
  NvU32 flags;
  NvU8 gpuUuid[256];
  NvU32 uuidStrLen;
};
static_assert(sizeof(NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS) == 268);

struct NV0000_CTRL_GPU_ATTACH_IDS_PARAMS {
  NvU32 gpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
  NvU32 failedId;
};
static_assert(sizeof(NV0000_CTRL_GPU_ATTACH_IDS_PARAMS) == 132);

struct NV0000_CTRL_GPU_DETACH_IDS_PARAMS {
  NvU32 gpuIds[NV0000_CTRL_GPU_MAX_ATTACHED_GPUS];
};
static_assert(sizeof(NV0000_CTRL_GPU_DETACH_IDS_PARAMS) == 128);

// ---- ctrl0000/ctrl0000system.h
struct NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS {
  NvU32 sizeOfStrings;
  NvP64 pDriverVersionBuffer;
  NvP64 pVersionBuffer;
  NvP64 pTitleBuffer;
  NvU32 changelistNumber;
  NvU32 officialChangelistNumber;
};
static_assert(sizeof(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS) == 40);

struct NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V535 {
  char driverVersionBuffer[256];
  char versionBuffer[256];
  char titleBuffer[256];
  NvU32 changelistNumber;
  NvU32 officialChangelistNumber;
};
static_assert(sizeof(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V535) == 776);
struct NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V570 {
  char driverVersionBuffer[256];
  char versionBuffer[256];
  char driverBranch[256];
  char titleBuffer[256];
  NvU32 changelistNumber;
  NvU32 officialChangelistNumber;
};
static_assert(sizeof(NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V570) == 1032);

// ---- ctrl0000/ctrl0000client.h
inline constexpr NvU32 NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_PARENT = 1;
inline constexpr NvU32 NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID = 2;
struct NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS {
  NvHandle hObject;
  NvU32 index;
  union {
    NvHandle hResult;
    NvU64 iResult;
  } data;
};
static_assert(sizeof(NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS) == 16);

struct NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS {
  NvHandle hObject;
  NvHandle hClient;
  RS_ACCESS_MASK maskResult;
};
static_assert(sizeof(NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS) == 12);

struct NV0000_CTRL_CMD_CLIENT_GET_CHILD_HANDLE_PARAMS {
  NvHandle hParent;
  NvU32 classId;
  NvHandle hObject;
};
static_assert(sizeof(NV0000_CTRL_CMD_CLIENT_GET_CHILD_HANDLE_PARAMS) == 12);

struct NV0000_CTRL_CLIENT_OBJECTS_ARE_DUPLICATES_PARAMS {
  NvHandle hObject1;
  NvHandle hObject2;
  NvBool bDuplicates;
};
static_assert(sizeof(NV0000_CTRL_CLIENT_OBJECTS_ARE_DUPLICATES_PARAMS) == 12);

// ---- ctrl0000/ctrl0000unix.h
inline constexpr NvU32 NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM = 1;
struct NV0000_CTRL_OS_UNIX_EXPORT_OBJECT {
  NvU32 type;
  struct {  // the vendor's is a union of one member
    struct {
      NvHandle hDevice;  // 0 for objects of a client rather than a device
      NvHandle hParent;
      NvHandle hObject;
    } rmObject;
  } data;
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_EXPORT_OBJECT) == 16);

// fd: an open file of /dev/nvidiactl, which becomes the holder; or -1 with FLAGS_EMPTY_FD.
inline constexpr NvU32 NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD = 1;
struct NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS {
  NV0000_CTRL_OS_UNIX_EXPORT_OBJECT object;
  NvS32 fd;
  NvU32 flags;
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS) == 24);

struct NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS {
  NvS32 fd;
  NV0000_CTRL_OS_UNIX_EXPORT_OBJECT object;  // in: parent and new handle
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS) == 20);

inline constexpr NvU32 NV0000_OS_UNIX_EXPORT_OBJECT_FD_BUFFER_SIZE = 64;
struct NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V535 {
  NvS32 fd;
  NvU32 deviceInstance;
  NvU16 maxObjects;
  NvU8 metadata[NV0000_OS_UNIX_EXPORT_OBJECT_FD_BUFFER_SIZE];
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V535) == 76);
struct NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V550 {
  NvS32 fd;
  NvU32 deviceInstance;
  NvU32 gpuInstanceId;
  NvU16 maxObjects;
  NvU8 metadata[NV0000_OS_UNIX_EXPORT_OBJECT_FD_BUFFER_SIZE];
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V550) == 80);

struct NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS {
  NvHandle hDevice;
  NvU16 maxObjects;
  NvU8 metadata[NV0000_OS_UNIX_EXPORT_OBJECT_FD_BUFFER_SIZE];
  NvS32 fd;
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS) == 76);

struct NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS {
  NvS32 fd;
  NvHandle hDevice;
  NvU16 maxObjects;
  NvU8 metadata[NV0000_OS_UNIX_EXPORT_OBJECT_FD_BUFFER_SIZE];
  NvHandle objects[512];
  NvU16 numObjects;
  NvU16 index;
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS) == 2128);

inline constexpr NvU8 NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_NONE = 0;
inline constexpr NvU8 NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_VIDMEM = 1;
inline constexpr NvU8 NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_SYSMEM = 2;
struct NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS {
  NvS32 fd;
  NvHandle hParent;
  NvHandle objects[128];
  NvU8 objectTypes[128];
  NvU16 numObjects;
  NvU16 index;
};
static_assert(sizeof(NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS) == 652);

// ---- ctrl0080/ctrl0080gpu.h
struct NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS {
  NvU32 numClasses;
  NvP64 classList;  // embedded pointer, NvU32 each
};
static_assert(sizeof(NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS) == 16);
// 535 has room for 160 classes, 550 for 174, 570 for 100.
struct NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V550 {
  NvU32 numClasses;
  NvU32 classList[174];
};
static_assert(sizeof(NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V550) == 700);
struct NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V580 {
  NvU32 numClasses;
  NvU32 classList[200];
};
static_assert(sizeof(NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V580) == 804);
struct NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS {
  NvU32 numSubDevices;
};
static_assert(sizeof(NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS) == 4);

// ---- ctrl0080/ctrl0080fifo.h
struct NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS {
  NvU32 engineId;
  NvU32 alignment;
  NvU32 size;
};
static_assert(sizeof(NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS) == 12);

// ---- ctrl2080/ctrl2080fb.h. Every index is a size in KiB unless its name says otherwise.
struct NV2080_CTRL_FB_INFO {
  NvU32 index;  // NV2080_CTRL_FB_INFO_INDEX_*, fb_info.h
  NvU32 data;
};
static_assert(sizeof(NV2080_CTRL_FB_INFO) == 8);
struct NV2080_CTRL_FB_GET_INFO_PARAMS {
  NvU32 fbInfoListSize;
  NvP64 fbInfoList;  // embedded pointer, NV2080_CTRL_FB_INFO each
};
static_assert(sizeof(NV2080_CTRL_FB_GET_INFO_PARAMS) == 16);
// 535 has room for 54 entries, 550 for 55, 570 for 57.
struct NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550 {
  NvU32 fbInfoListSize;
  NV2080_CTRL_FB_INFO fbInfoList[55];
};
static_assert(sizeof(NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V550) == 444);
struct NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580 {
  NvU32 fbInfoListSize;
  NV2080_CTRL_FB_INFO fbInfoList[128];
};
static_assert(sizeof(NV2080_CTRL_FB_GET_INFO_V2_PARAMS_V580) == 1028);

struct NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V535 {
  NvU64 base;
  NvU64 limit;
  NvU64 reserved;
  NvU32 performance;
  NvBool supportCompressed;
  NvBool supportISO;
  NvBool bProtected;
  NvBool blackList[17];
};
static_assert(sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V535) == 48);
struct NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V535 {
  NvU32 numFBRegions;
  NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V535 fbRegion[16];
};
static_assert(sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V535) == 776);
struct NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V580 {
  NvU64 base;
  NvU64 limit;
  NvU64 reserved;
  NvU32 performance;
  NvBool supportCompressed;
  NvBool supportISO;
  NvBool bProtected;
  NvBool blackList[18];
};
static_assert(sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V580) == 56);
struct NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V580 {
  NvU32 numFBRegions;
  NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO_V580 fbRegion[16];
};
static_assert(sizeof(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS_V580) == 904);

// ---- ctrl2080/ctrl2080gpu.h
inline constexpr NvU32 NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT = 950;
inline constexpr NvU32 NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS = 0;
inline constexpr NvU32 NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_VGPU_GUEST = 1;
struct NV2080_CTRL_GPU_GET_PIDS_PARAMS {
  NvU32 idType;
  NvU32 id;  // a class: NV20_SUBDEVICE_0 means every client, else the users of that class
  NvU32 pidTblCount;
  NvU32 pidTbl[NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT];
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_PIDS_PARAMS) == 3812);

struct NV2080_CTRL_GPU_PID_INFO_VIDEO_MEMORY_USAGE_DATA {  // bytes
  NvU64 memPrivate;
  NvU64 memSharedOwned;
  NvU64 memSharedDuped;
  NvU64 protectedMemPrivate;
  NvU64 protectedMemSharedOwned;
  NvU64 protectedMemSharedDuped;
};
struct NV2080_CTRL_SMC_SUBSCRIPTION_INFO {
  NvU32 computeInstanceId;
  NvU32 gpuInstanceId;
};
inline constexpr NvU32 NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE = 0;
inline constexpr NvU32 NV2080_CTRL_GPU_PID_INFO_MAX_COUNT = 200;
struct NV2080_CTRL_GPU_PID_INFO {
  NvU32 pid;
  NvU32 index;
  NvU32 result;  // an NV_STATUS for this entry
  struct {
    NV2080_CTRL_GPU_PID_INFO_VIDEO_MEMORY_USAGE_DATA vidMemUsage;
  } data;
  NV2080_CTRL_SMC_SUBSCRIPTION_INFO smcSubscription;
};
static_assert(sizeof(NV2080_CTRL_GPU_PID_INFO) == 72);
struct NV2080_CTRL_GPU_GET_PID_INFO_PARAMS {
  NvU32 pidInfoListCount;
  NV2080_CTRL_GPU_PID_INFO pidInfoList[NV2080_CTRL_GPU_PID_INFO_MAX_COUNT];
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_PID_INFO_PARAMS) == 14408);

inline constexpr NvU32 NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII = 0;
inline constexpr NvU32 NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_UNICODE = 1;
struct NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS {  // 595 ends it after the 64 bytes of ascii
  NvU32 gpuNameStringFlags;
  union {
    NvU8 ascii[64];
    NvU16 unicode[64];
  } gpuNameString;
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS) == 132);
struct NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS {
  NvU8 gpuShortNameString[64];
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS) == 64);
struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS {
  NvU32 index;
  NvU32 flags;  // kUuidFormat*
  NvU32 length;
  NvU8 data[256];
};
static_assert(sizeof(NV2080_CTRL_GPU_GET_GID_INFO_PARAMS) == 268);

// ---- ctrl2080/ctrl2080bus.h. The first three are cleared when they are read
// (src/nvidia/src/kernel/gpu/bif/kernel_bif.c).
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_ERRORS = 0x11;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_ROOT_LINK_ERRORS = 0x12;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_AER = 0x15;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_LINECODE_ERRORS_CLEAR = 0x20;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_FAILED_L0S_EXITS_CLEAR = 0x23;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS = 0x24;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CORRECTABLE_ERRORS_CLEAR = 0x28;
inline constexpr NvU32 NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_UNSUPPORTED_REQUESTS_CLEAR = 0x2b;
struct NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS {
  NvU32 pciDeviceId;
  NvU32 pciSubSystemId;
  NvU32 pciRevisionId;
  NvU32 pciExtDeviceId;
};
static_assert(sizeof(NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS) == 16);

// ---- ctrl2080/ctrl2080gr.h, ctrl0080/ctrl0080gr.h
struct NV2080_CTRL_GR_ROUTE_INFO {
  NvU32 flags;
  NvU64 route;
};
static_assert(sizeof(NV2080_CTRL_GR_ROUTE_INFO) == 16);
struct NV2080_CTRL_GR_INFO {
  NvU32 index;
  NvU32 data;
};
inline constexpr NvU32 NV2080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT = 0x2C;
struct NV2080_CTRL_GR_GET_INFO_PARAMS {
  NvU32 grInfoListSize;
  NvP64 grInfoList;  // embedded pointer, NV2080_CTRL_GR_INFO each
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_INFO_PARAMS) == 32);
struct NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V535 {
  NvU32 grInfoListSize;
  NV2080_CTRL_GR_INFO grInfoList[53];
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V535) == 448);
struct NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V550 {
  NvU32 grInfoListSize;
  NV2080_CTRL_GR_INFO grInfoList[56];
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V550) == 472);
struct NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V570 {
  NvU32 grInfoListSize;
  NV2080_CTRL_GR_INFO grInfoList[58];
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V570) == 488);
struct NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V590 {
  NvU32 grInfoListSize;
  NV2080_CTRL_GR_INFO grInfoList[59];
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V590) == 496);
struct NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V610 {
  NvU32 grInfoListSize;
  NV2080_CTRL_GR_INFO grInfoList[63];
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_INFO_V2_PARAMS_V610) == 528);

// Size of one kind of context buffer; asked before anything is allocated. See context_buffers.h.
struct NV2080_CTRL_GR_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS {
  NV2080_CTRL_GR_ROUTE_INFO grRouteInfo;
  NvU32 engineId;  // NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_ENGINE_ID_*
  NvU32 alignment;
  NvU32 size;
  NvBool bInfoPopulated;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS) == 32);
struct NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS {
  NvHandle hChannel;  // a channel or channel group that has a context already
  NvU64 totalBufferSize;
};
static_assert(sizeof(NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS) == 16);

// ---- ctrl2080/ctrl2080mc.h
struct NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS {
  NvU32 architecture;
  NvU32 implementation;
  NvU32 revision;
  NvU8 subRevision;
};
static_assert(sizeof(NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS) == 16);

// ---- ctrl2080/ctrl2080thermal.h: its operation codes all read; the firmware executes them.
struct NV2080_CTRL_THERMAL_SYSTEM_INSTRUCTION {
  NvU32 result;
  NvU32 executed;
  NvU32 opcode;
  NvU32 operands[8];
};
struct NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS {
  NvU32 clientAPIVersion;
  NvU32 clientAPIRevision;
  NvU32 clientInstructionSizeOf;
  NvU32 executeFlags;
  NvU32 successfulInstructions;
  NvU32 instructionListSize;
  NV2080_CTRL_THERMAL_SYSTEM_INSTRUCTION instructionList[32];
};
static_assert(sizeof(NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS) == 1432);
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_TARGETS_AVAILABLE_OPCODE = 0x100;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_TARGET_TYPE_OPCODE = 0x101;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_PROVIDER_TYPE_OPCODE = 0x301;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSORS_AVAILABLE_OPCODE = 0x500;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_PROVIDER_OPCODE = 0x510;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_TARGET_OPCODE = 0x520;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_INFO_SENSOR_READING_RANGE_OPCODE = 0x540;
inline constexpr NvU32 NV2080_CTRL_THERMAL_SYSTEM_GET_STATUS_SENSOR_READING_OPCODE = 0x1500;

// ---- ctrl2080/ctrl2080fifo.h
struct NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS {
  NvBool bDisable;
  NvU32 numChannels;
  NvBool bOnlyDisableScheduling;
  NvBool bRewindGpPut;
  NvP64 pRunlistPreemptEvent;
  NvHandle hClientList[64];
  NvHandle hChannelList[64];
};
static_assert(sizeof(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS) == 536);

// ---- ctrl2080/ctrl2080gr.h
struct NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS {
  NvU32 flags;
  NvHandle hChannel;
  NvU32 gfxpPreemptMode;
  NvU32 cilpPreemptMode;
  NvU64 grRouteInfo[2];  // NV2080_CTRL_GR_ROUTE_INFO
};
static_assert(sizeof(NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS) == 32);
inline constexpr NvU32 NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_FLAGS_CILP = 1U << 0;
inline constexpr NvU32 NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_CTA = 1;
inline constexpr NvU32 NV2080_CTRL_SET_CTXSW_PREEMPTION_MODE_COMPUTE_CILP = 2;

// ---- ctrl0000/ctrl0000system.h
inline constexpr NvU32 NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP = 1;

// ---- ctrla06c.h, ctrla06f/ctrla06fgpfifo.h, ctrlc36f.h
struct NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535 {
  NvBool bEnable;
  NvBool bSkipSubmit;
};
static_assert(sizeof(NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V535) == 2);
struct NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580 {
  NvBool bEnable;
  NvBool bSkipSubmit;
  NvBool bSkipEnable;
};
static_assert(sizeof(NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_V580) == 3);
struct NVA06C_CTRL_TIMESLICE_PARAMS {
  NvU64 timesliceUs;
};
static_assert(sizeof(NVA06C_CTRL_TIMESLICE_PARAMS) == 8);
struct NVA06F_CTRL_RESTART_RUNLIST_PARAMS {
  NvBool bForceRestart;
  NvBool bBypassWait;
};
static_assert(sizeof(NVA06F_CTRL_RESTART_RUNLIST_PARAMS) == 2);
struct NVA06C_CTRL_PREEMPT_PARAMS {
  NvBool bWait;
  NvBool bManualTimeout;
  NvU32 timeoutUs;
};
static_assert(sizeof(NVA06C_CTRL_PREEMPT_PARAMS) == 8);
struct NVA06C_CTRL_GET_INFO_PARAMS {
  NvU32 tsgID;
};
static_assert(sizeof(NVA06C_CTRL_GET_INFO_PARAMS) == 4);
struct NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS {
  NvU32 tsgInterleaveLevel;
};
static_assert(sizeof(NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS) == 4);
// A group has LOW from the start (kchangrpInit_IMPL in
// src/nvidia/src/kernel/gpu/fifo/kernel_channel_group.c).
inline constexpr NvU32 NVA06C_CTRL_INTERLEAVE_LEVEL_LOW = 0;
inline constexpr NvU32 NVA06C_CTRL_INTERLEAVE_LEVEL_HIGH = 2;
struct NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS {
  NvU32 workSubmitToken;
};
static_assert(sizeof(NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS) == 4);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_CTRL_H_
