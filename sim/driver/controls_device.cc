// Controls on devices and subdevices: identity, processes, engine facts.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "sim/driver/control.h"
#include "sim/model/context_buffers.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU32 kPciVendorNvidia = 0x10DE;
constexpr rm::NvU32 kMaxClasses = 1024;

// device_ctrl.c deviceCtrlCmdGpuGetClasslist_IMPL(): a count of 0 asks for the count.
NvStatus GetClasslist(ControlCall& call) {
  auto params = call.Get<rm::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS>();
  const std::span<const rm::NvU32> classes = call.GetGpu().model->chip->classes;
  if (params.numClasses != 0 && params.classList != 0) {
    if (params.numClasses < classes.size()) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    std::memcpy(call.embedded.data(), classes.data(), classes.size() * sizeof(rm::NvU32));
  }
  params.numClasses = static_cast<rm::NvU32>(classes.size());
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetClasslistV2(ControlCall& call) {
  rm::NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS_V580 params{};
  const std::span<const rm::NvU32> classes = call.GetGpu().model->chip->classes;
  params.numClasses = static_cast<rm::NvU32>(classes.size());
  std::copy(classes.begin(), classes.end(), params.classList);
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetNumSubdevices(ControlCall& call) {
  call.Put(rm::NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS{1});
  return rm::NV_OK;
}

NvStatus GetNameString(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS>();
  const std::string_view name = call.GetGpu().model->name;
  params.gpuNameString = {};
  switch (params.gpuNameStringFlags) {
    case rm::NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_ASCII:
      std::copy(name.begin(), name.end(), params.gpuNameString.ascii);
      break;
    case rm::NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_UNICODE:
      std::copy(name.begin(), name.end(), params.gpuNameString.unicode);
      break;
    default:
      return rm::NV_ERR_INVALID_ARGUMENT;
  }
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetShortNameString(ControlCall& call) {
  rm::NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS params{};
  const std::string_view key = call.GetGpu().model->key;
  std::copy(key.begin(), key.end(), params.gpuShortNameString);
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetGidInfo(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GPU_GET_GID_INFO_PARAMS>();
  params.length = PutUuid(call.GetGpu(), params.flags, params.data);
  call.Put(params);
  return rm::NV_OK;
}

// subdevice_ctrl_gpu_kernel.c subdeviceCtrlCmdGpuGetPids_IMPL(): pids as the caller's namespace has
// them; processes it does not have are left out (gpu_rmapi.c _gpuConvertPid()).
NvStatus GetPids(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GPU_GET_PIDS_PARAMS>();
  if (params.idType > rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_VGPU_GUEST) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.pidTblCount = 0;
  if (params.idType == rm::NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS) {
    for (const std::uint32_t tgid : call.model.ProcessesOn(call.object.gpu, params.id)) {
      const auto seen = call.caller.PidAsSeen(tgid);
      if (seen && params.pidTblCount < rm::NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT) {
        params.pidTbl[params.pidTblCount++] = *seen;
      }
    }
  }
  call.Put(params);
  return rm::NV_OK;
}

// subdeviceCtrlCmdGpuGetPidInfo_IMPL(). The driver compares the number asked for with the pid in
// the initial namespace: unlike GET_PIDS it does not translate, so neither does this.
NvStatus GetPidInfo(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GPU_GET_PID_INFO_PARAMS>();
  if (params.pidInfoListCount == 0 ||
      params.pidInfoListCount > rm::NV2080_CTRL_GPU_PID_INFO_MAX_COUNT) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  for (rm::NvU32 i = 0; i < params.pidInfoListCount; ++i) {
    rm::NV2080_CTRL_GPU_PID_INFO& info = params.pidInfoList[i];
    info.smcSubscription = {0xFFFFFFFF, 0xFFFFFFFF};
    if (info.index != rm::NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE) {
      info.result = rm::NV_ERR_INVALID_ARGUMENT;
      continue;
    }
    const MemoryUse use = call.model.UseOf(info.pid, call.object.gpu);
    info.data = {};
    info.data.vidMemUsage.memPrivate = use.memory_private;
    info.data.vidMemUsage.memSharedOwned = use.shared_owned;
    info.data.vidMemUsage.memSharedDuped = use.shared_duped;
    info.result = info.pid == 0 ? rm::NV_ERR_INVALID_ARGUMENT : rm::NV_OK;
  }
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetPciInfo(ControlCall& call) {
  const GpuModel& model = *call.GetGpu().model;
  rm::NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS params{};
  params.pciDeviceId = rm::NvU32{model.pci_device} << 16 | kPciVendorNvidia;
  params.pciSubSystemId = model.pci_subsystem;
  params.pciRevisionId = 0xA1;
  params.pciExtDeviceId = model.pci_device;
  call.Put(params);
  return rm::NV_OK;
}

NvStatus GetArchInfo(ControlCall& call) {
  const Chip& chip = *call.GetGpu().model->chip;
  rm::NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS params{};
  params.architecture = chip.architecture;
  params.implementation = chip.implementation;
  params.revision = 0xA1;
  call.Put(params);
  return rm::NV_OK;
}

// kernel_graphics.c subdeviceCtrlCmdKGrGetEngineContextProperties_IMPL().
NvStatus GrGetEngineContextProperties(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GR_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS>();
  constexpr rm::NvU32 kEngineIdMask = 0x1F;  // bits 4:0
  constexpr rm::NvU32 kEngineIdCount = 0x1A;
  const rm::NvU32 engine = params.engineId & kEngineIdMask;
  if (engine >= kEngineIdCount) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const auto size = ContextBufferSize(*call.GetGpu().model, engine);
  if (!size) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  constexpr rm::NvU32 kAlignment = 4096;
  const bool populated = params.bInfoPopulated != 0;
  params.size = populated ? std::max(params.size, *size) : *size;
  params.alignment = populated ? std::max(params.alignment, kAlignment) : kAlignment;
  params.bInfoPopulated = 1;
  call.Put(params);
  return rm::NV_OK;
}

// kernel_graphics.c: for a channel or group that has its context.
NvStatus GrGetCtxBufferSize(ControlCall& call) {
  auto params = call.Get<rm::NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS>();
  const Object* object = DriverModel::FindObject(call.client, params.hChannel);
  if (object == nullptr ||
      (object->kind != ObjectKind::kChannelGroup && object->kind != ObjectKind::kChannel)) {
    return rm::NV_ERR_INVALID_CHANNEL;
  }
  const Object* holder =
      object->group != nullptr ? object : DriverModel::FindObject(call.client, object->parent);
  params.totalBufferSize = holder->group->charge.Bytes();
  call.Put(params);
  return rm::NV_OK;
}

constexpr EmbeddedPointer kClassListPointer{
    offsetof(rm::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS, classList),
    offsetof(rm::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS, numClasses), sizeof(rm::NvU32), kMaxClasses};
using enum ObjectKind;
constexpr Privilege kAny = Privilege::kAny;
constexpr ControlEntry kDeviceEntries[] = {
    {rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST, kDevice, GetClasslist, kAny, kClassListPointer},
    {rm::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2, kDevice, GetClasslistV2},
    {rm::NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, kDevice, GetNumSubdevices},
    {rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, kSubdevice, GetNameString},
    {rm::NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, kSubdevice, GetShortNameString},
    {rm::NV2080_CTRL_CMD_GPU_GET_GID_INFO, kSubdevice, GetGidInfo},
    {rm::NV2080_CTRL_CMD_GPU_GET_PIDS, kSubdevice, GetPids},
    {rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, kSubdevice, GetPidInfo},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCI_INFO, kSubdevice, GetPciInfo},
    {rm::NV2080_CTRL_CMD_MC_GET_ARCH_INFO, kSubdevice, GetArchInfo},
    {rm::NV2080_CTRL_CMD_GR_GET_ENGINE_CONTEXT_PROPERTIES, kSubdevice,
     GrGetEngineContextProperties},
    {rm::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE, kSubdevice, GrGetCtxBufferSize},
};

}  // namespace

std::span<const ControlEntry> DeviceControls() {
  return kDeviceEntries;
}

}  // namespace cgpu::sim
