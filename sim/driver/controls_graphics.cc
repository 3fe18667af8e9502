// Controls that tell what a GPU's graphics engine is, and harmless ones that programs issue.
#include <cstddef>
#include <iterator>
#include <vector>

#include "rm/nv_alloc.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl_board.h"
#include "sim/driver/control.h"
#include "sim/driver/more_controls.h"
#include "sim/model/context_buffers.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU32 kMaxGrInfos = 64;
constexpr rm::NvU32 kSmsPerTpc = 2;
constexpr rm::NvU32 kThreadsPerWarp = 32;
constexpr rm::NvU32 kL2Slice = 512 << 10;

rm::NvU32 TpcsOf(const GpuModel& model) {
  return model.sms / kSmsPerTpc;
}

// How many of the GPU's TPCs are in this GPC: spread evenly, the first ones have more.
rm::NvU32 TpcsInGpc(const GpuModel& model, rm::NvU32 gpc) {
  const rm::NvU32 tpcs = TpcsOf(model);
  return gpc >= model.gpcs ? 0 : tpcs / model.gpcs + (gpc < tpcs % model.gpcs ? 1 : 0);
}

// kernel_graphics.c: NV0080_CTRL_GR_INFO_INDEX_* of ctrl0080/ctrl0080gr.h. An index without a
// figure here is answered with 0.
rm::NvU32 GrInfo(const Gpu& gpu, rm::NvU32 index) {
  const GpuModel& model = *gpu.model;
  const Chip& chip = *model.chip;
  switch (index) {
    case 0x07:  // SHADER_PIPE_COUNT: GPCs
    case 0x14:  // LITTER_NUM_GPCS
      return index == 0x14 ? chip.max_gpcs : model.gpcs;
    case 0x09:  // SHADER_PIPE_SUB_COUNT
      return TpcsOf(model);
    case 0x0C:
      return chip.sm_version;
    case 0x0D:
      return chip.max_warps_per_sm;
    case 0x0E:
      return kThreadsPerWarp;
    case 0x17:  // LITTER_NUM_TPC_PER_GPC
    case 0x2A:  // FAMILY_MAX_TPC_PER_GPC
      return chip.max_tpcs_per_gpc;
    case 0x1D:  // GPU_CORE_COUNT
      return model.sms * chip.fp32_cores_per_sm;
    case 0x20:  // LITTER_NUM_SM_PER_TPC
      return kSmsPerTpc;
    case 0x26:  // LITTER_NUM_LTC_SLICES
      return model.l2_bytes / kL2Slice;
    case rm::NV2080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT:
      return MaxSubcontexts(model);
    default:
      return 0;
  }
}

NvStatus GrGetInfo(ControlCall& call) {
  const auto params = call.Get<rm::NV2080_CTRL_GR_GET_INFO_PARAMS>();
  if (params.grInfoListSize == 0 || call.embedded.empty()) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < params.grInfoListSize; ++i) {
    const auto place = call.embedded.subspan(i * sizeof(rm::NV2080_CTRL_GR_INFO));
    auto info = Load<rm::NV2080_CTRL_GR_INFO>(place);
    info.data = GrInfo(call.GetGpu(), info.index);
    Store(place, info);
  }
  return rm::NV_OK;
}

NvStatus GrGetInfoV2(ControlCall& call) {
  const auto count = Load<rm::NvU32>(call.params);
  const std::size_t room =
      (call.params.size() - sizeof(rm::NvU32) - sizeof(rm::NV2080_CTRL_GR_ROUTE_INFO)) /
      sizeof(rm::NV2080_CTRL_GR_INFO);
  if (count == 0 || count > room) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < count; ++i) {
    const auto place = call.params.subspan(sizeof(rm::NvU32) + i * sizeof(rm::NV2080_CTRL_GR_INFO));
    auto info = Load<rm::NV2080_CTRL_GR_INFO>(place);
    info.data = GrInfo(call.GetGpu(), info.index);
    Store(place, info);
  }
  return rm::NV_OK;
}

NvStatus GetGpcMask(ControlCall& call) {
  auto params = call.Get<NV2080_CTRL_GR_GET_GPC_MASK_PARAMS>();
  params.gpcMask = (1U << call.GetGpu().model->gpcs) - 1;
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetTpcMask(ControlCall& call) {
  auto params = call.Get<NV2080_CTRL_GR_GET_TPC_MASK_PARAMS>();
  const GpuModel& model = *call.GetGpu().model;
  if (params.gpcId >= model.gpcs) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.tpcMask = (1U << TpcsInGpc(model, params.gpcId)) - 1;
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetNumTpcs(ControlCall& call) {
  auto params = call.Get<NV2080_CTRL_GR_GET_NUM_TPCS_FOR_GPC_PARAMS>();
  const GpuModel& model = *call.GetGpu().model;
  if (params.gpcId >= model.gpcs) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.numTpcs = TpcsInGpc(model, params.gpcId);
  call.Put(params);
  return rm::NV_OK;
}

// Engines of the GPU as NV2080_ENGINE_TYPE_* (class/cl2080_notification.h), which differ between
// branches above the decoders: those are left out.
NvStatus GetEngines(ControlCall& call) {
  constexpr rm::NvU32 kNvdec0 = 0x13;
  const Chip& chip = *call.GetGpu().model->chip;
  std::vector<rm::NvU32> engines = {rm::NV2080_ENGINE_TYPE_GRAPHICS};
  for (rm::NvU32 i = 0; i < chip.copy_engines; ++i) {
    engines.push_back(rm::NV2080_ENGINE_TYPE_COPY0 + i);
  }
  for (rm::NvU32 i = 0; i < chip.decoders; ++i) {
    engines.push_back(kNvdec0 + i);
  }
  if (call.params.size() < (engines.size() + 1) * sizeof(rm::NvU32)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  Store(call.params, static_cast<rm::NvU32>(engines.size()));
  for (std::size_t i = 0; i < engines.size(); ++i) {
    Store(call.params.subspan((i + 1) * sizeof(rm::NvU32)), engines[i]);
  }
  return rm::NV_OK;
}

// It is a GPU and no simulation, as far as the driver can tell.
NvStatus GetSimulationInfo(ControlCall& call) {
  call.Put(rm::NvU32{0});
  return rm::NV_OK;
}

NvStatus GetMaxPageSize(ControlCall& call) {
  constexpr rm::NvU64 k512MiB = rm::NvU64{512} << 20;
  constexpr rm::NvU64 k2MiB = rm::NvU64{2} << 20;
  call.Put(call.GetGpu().model->chip->architecture >= 0x170 ? k512MiB : k2MiB);
  return rm::NV_OK;
}

// The mode is the channel's group's; the parameters stay as they are.
NvStatus SetPreemptionMode(ControlCall& call) {
  const auto params = call.Get<rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS>();
  const Object* channel = DriverModel::FindObject(call.client, params.hChannel);
  std::shared_ptr<Group> group = channel == nullptr ? nullptr : channel->group;
  if (channel != nullptr && group == nullptr) {
    const Object* parent = DriverModel::FindObject(call.client, channel->parent);
    group = parent == nullptr ? nullptr : parent->group;
  }
  if (group != nullptr &&
      (params.flags & rm::NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_FLAGS_CILP) != 0) {
    group->preemption_mode = params.cilpPreemptMode;
  }
  return rm::NV_OK;
}

// kern_cuda_limit.c deviceCtrlCmdKPerfCudaLimitSetControl_IMPL(): until the device goes.
NvStatus SetCudaLimit(ControlCall& call) {
  call.object.cuda_limit = call.Get<rm::NvU8>() != 0;
  return rm::NV_OK;
}

// kern_mem_sys_ctrl.c kmemsysFlushGpuCache_IMPL(), as a GPU that is no virtual one: the cache that
// it empties is of all that use the GPU. What of a GPU's cache this has emptied the node's count of
// received calls says.
NvStatus FlushCache(ControlCall& call) {
  const auto params = call.Get<rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS>();
  const rm::NvU32 flags = params.flags;
  constexpr rm::NvU32 kPeerMemory = 2;
  const bool invalidates = rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_INVALIDATE.Get(flags) != 0;
  const rm::NvU32 aperture = rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE.Get(flags);
  if (!invalidates && rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_WRITE_BACK.Get(flags) == 0) {
    return rm::NV_OK;  // a flush of what is on its way, at most
  }
  if (aperture > kPeerMemory) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE.Get(flags) !=
      rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE_FULL_CACHE) {
    const bool sound = params.addressArraySize != 0 &&
                       params.addressArraySize <= std::size(params.addressArray) &&
                       params.memBlockSizeBytes != 0;
    return sound ? rm::NV_ERR_GENERIC : rm::NV_ERR_INVALID_ARGUMENT;
  }
  // The cache of the GPU's own memory cannot be written back without being emptied.
  return aperture == rm::NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_VIDEO_MEMORY && !invalidates
             ? rm::NV_ERR_NOT_SUPPORTED
             : rm::NV_OK;
}

constexpr EmbeddedPointer kGrInfoList{offsetof(rm::NV2080_CTRL_GR_GET_INFO_PARAMS, grInfoList),
                                      offsetof(rm::NV2080_CTRL_GR_GET_INFO_PARAMS, grInfoListSize),
                                      sizeof(rm::NV2080_CTRL_GR_INFO), kMaxGrInfos};
using enum ObjectKind;
constexpr ControlEntry kGraphicsEntries[] = {
    {rm::NV2080_CTRL_CMD_GR_GET_INFO, kSubdevice, GrGetInfo, Privilege::kAny, kGrInfoList},
    {rm::NV2080_CTRL_CMD_GR_GET_INFO_V2, kSubdevice, GrGetInfoV2},
    {NV2080_CTRL_CMD_GR_GET_GPC_MASK, kSubdevice, GetGpcMask},
    {NV2080_CTRL_CMD_GR_GET_TPC_MASK, kSubdevice, GetTpcMask},
    {NV2080_CTRL_CMD_GR_GET_NUM_TPCS_FOR_GPC, kSubdevice, GetNumTpcs},
    {NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE, kSubdevice, SetPreemptionMode},
    {rm::NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, ObjectKind::kDevice, SetCudaLimit},
    {NV2080_CTRL_CMD_GPU_GET_ENGINES_V2, kSubdevice, GetEngines},
    {NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, kSubdevice, GetSimulationInfo},
    {NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES, kSubdevice, AnswerZeros},
    {NV2080_CTRL_CMD_GPU_GET_MAX_SUPPORTED_PAGE_SIZE, kSubdevice, GetMaxPageSize},
    {NV2080_CTRL_CMD_PERF_BOOST, kSubdevice, Accept},
    {rm::NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE, kSubdevice, FlushCache},
    {rm::NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK, kDebugger, Accept},
    {rm::NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES, kDebugger, Accept},
    {NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO, kDebugger, AnswerZeros},
    {NV83DE_CTRL_CMD_DEBUG_SUSPEND_CONTEXT, kDebugger, Accept},
    {NV83DE_CTRL_CMD_DEBUG_RESUME_CONTEXT, kDebugger, Accept},
};

}  // namespace

std::span<const ControlEntry> GraphicsControls() {
  return kGraphicsEntries;
}

}  // namespace cgpu::sim
