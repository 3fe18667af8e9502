// Event buffers: memory that the driver writes records to and a client reads, and the records of
// context switches on the graphics and compute engine.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/common/sdk/nvidia/inc/class/cl90cd.h,
// cl90cdFecs.h and cl90cdtypes.h, ctrl/ctrl90cd.h and ctrl/ctrl2080/ctrl2080gr.h; the same in 535
// to 595.
#ifndef CGPU_RM_NV_EVENTS_H_
#define CGPU_RM_NV_EVENTS_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

struct NV_EVENT_BUFFER_ALLOC_PARAMETERS {  // class NV_EVENT_BUFFER
  NvP64 bufferHeader;
  NvP64 recordBuffer;
  NvU32 recordSize;
  NvU32 recordCount;
  NvP64 vardataBuffer;
  NvU32 vardataBufferSize;
  NvU32 recordsFreeThreshold;
  NvU64 notificationHandle;
  NvU32 vardataFreeThreshold;
  NvHandle hSubDevice;
  NvU32 flags;
  NvHandle hBufferHeader;
  NvHandle hRecordBuffer;
  NvHandle hVardataBuffer;
};
static_assert(sizeof(NV_EVENT_BUFFER_ALLOC_PARAMETERS) == 72);

// Read by the client, and never written by it.
struct NV_EVENT_BUFFER_HEADER {
  NvU32 recordGet;
  NvU32 recordPut;
  NvU64 recordCount;
  NvU64 recordDropcount;
  NvU64 vardataDropcount;
};
static_assert(sizeof(NV_EVENT_BUFFER_HEADER) == 32);

struct NV_EVENT_BUFFER_RECORD_HEADER {
  NvU16 type;
  NvU16 subtype;
  NvU32 varData;
};
static_assert(sizeof(NV_EVENT_BUFFER_RECORD_HEADER) == 8);

inline constexpr NvU16 NV_EVENT_BUFFER_RECORD_TYPE_FECS_CTX_SWITCH_V2 = 2;

struct NV_EVENT_BUFFER_FECS_RECORD_V2 {
  NvU8 tag;
  NvU8 vmid;
  NvU16 seqno;
  NvU32 context_id;
  NvU32 pid;
  NvU16 reserved0;
  NvU8 migGpuInstanceId;
  NvU8 migComputeInstanceId;
  NvU64 timestamp;
};
static_assert(sizeof(NV_EVENT_BUFFER_FECS_RECORD_V2) == 24);

inline constexpr NvU8 NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_START = 0x06;
inline constexpr NvU8 NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_END = 0x07;
// Stands for a client of another user, where the reader is no administrator.
inline constexpr NvU32 NV_EVENT_BUFFER_HIDDEN_PID = 0;
inline constexpr NvU32 NV_EVENT_BUFFER_HIDDEN_CONTEXT = 0;

struct NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS_PARAMS {
  NvBool enable;
  NvU32 flags;
};
inline constexpr NvU32 NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_OLDEST = 1;
inline constexpr NvU32 NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_NEWEST = 2;

struct NV_EVENT_BUFFER_CTRL_CMD_UPDATE_GET_PARAMS {
  NvU32 recordBufferGet;
  NvU32 varDataBufferGet;
};

// An administrator sees the processes and contexts of all users. A release driver reports only
// starts and ends of a context's time on the engine, whatever else a reader asks for
// (src/nvidia/src/kernel/gpu/gr/fecs_event_list.c fecsAddBindpoint()).
inline constexpr NvU32 NV2080_CTRL_GR_FECS_BIND_EVTBUF_LOD_SIMPLE = 1;
struct NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS {
  NvHandle hEventBuffer;
  NvU32 recordSize;
  NvU32 levelOfDetail;
  NvU32 eventFilter;
  NvBool bAllUsers;
  NvU32 reasonCode;
};
static_assert(sizeof(NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS) == 24);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_EVENTS_H_
