// Controls on a client: versions, enumeration of the GPUs, handles.
#include <algorithm>
#include <cstring>
#include <string>

#include "rm/nv_controls.h"
#include "sim/driver/control.h"

namespace cgpu::sim {
namespace {

// NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE, bits 2:2; only SHA1 (0) exists. ctrl2080gpu.h
constexpr rm::NvU32 kUuidTypeMask = 4;
constexpr rm::NvU32 kNoNumaNode = 0xFFFFFFFF;

const Gpu* GpuById(const DriverModel& model, rm::NvU32 gpu_id) {
  for (const Gpu& gpu : model.Gpus()) {
    if (gpu.gpu_id == gpu_id) {
      return &gpu;
    }
  }
  return nullptr;
}

void CopyText(std::span<char> out, const std::string& text) {
  const std::size_t length = std::min(out.size() - 1, text.size());
  std::copy_n(text.begin(), length, out.begin());
  out[length] = '\0';
}

// client_resource.c cliresCtrlCmdSystemGetBuildVersionV2_IMPL().
NvStatus BuildVersionV2(ControlCall& call) {
  const std::string version = rm::ToString(call.version);
  const std::string branch = "r" + std::to_string(call.version.major) + "_00";
  if (call.model.DriverAbi().branch < rm::Branch::k570) {
    auto params = call.Get<rm::NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V535>();
    CopyText(params.driverVersionBuffer, version);
    CopyText(params.versionBuffer, branch);
    CopyText(params.titleBuffer, "NVIDIA UNIX x86_64 Kernel Module (simulated)");
    params.changelistNumber = 0;
    params.officialChangelistNumber = 0;
    call.Put(params);
    return rm::NV_OK;
  }
  auto params = call.Get<rm::NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS_V570>();
  CopyText(params.driverVersionBuffer, version);
  CopyText(params.versionBuffer, branch);
  CopyText(params.driverBranch, branch);
  CopyText(params.titleBuffer, "NVIDIA UNIX x86_64 Kernel Module (simulated)");
  params.changelistNumber = 0;
  params.officialChangelistNumber = 0;
  call.Put(params);
  return rm::NV_OK;
}

void FillIds(const DriverModel& model, std::span<rm::NvU32> ids) {
  std::fill(ids.begin(), ids.end(), rm::NV0000_CTRL_GPU_INVALID_ID);
  for (const Gpu& gpu : model.Gpus()) {
    ids[gpu.index] = gpu.gpu_id;
  }
}

// gpu_mgr.c gpumgrGetAttachedGpuIds(). Every GPU counts as attached, as with persistence mode.
NvStatus AttachedIds(ControlCall& call) {
  rm::NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS params{};
  FillIds(call.model, params.gpuIds);
  call.Put(params);
  return rm::NV_OK;
}

// gpu_mgr.c gpumgrGetProbedGpuIds().
NvStatus ProbedIds(ControlCall& call) {
  rm::NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS_V580 params{};
  FillIds(call.model, params.gpuIds);
  std::fill(std::begin(params.excludedGpuIds), std::end(params.excludedGpuIds),
            rm::NV0000_CTRL_GPU_INVALID_ID);
  call.Put(params);  // before 580 it has no tail
  return rm::NV_OK;
}

// gpu_mgr.c gpumgrCacheGetActiveDeviceIds().
NvStatus ActiveDeviceIds(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_GPU_GET_ACTIVE_DEVICE_IDS_PARAMS>();
  params.numDevices = 0;
  for (const Gpu& gpu : call.model.Gpus()) {
    params.devices[params.numDevices++] = {gpu.gpu_id, rm::NV0000_CTRL_GPU_INVALID_ID,
                                           rm::NV0000_CTRL_GPU_INVALID_ID};
  }
  call.Put(params);
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdGpuAttachIds_IMPL(): there is nothing to attach.
NvStatus AttachIds(ControlCall& call) {
  const auto params = call.Get<rm::NV0000_CTRL_GPU_ATTACH_IDS_PARAMS>();
  if (params.gpuIds[0] == rm::NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS) {
    return rm::NV_OK;
  }
  for (const rm::NvU32 id : params.gpuIds) {
    if (id == rm::NV0000_CTRL_GPU_INVALID_ID) {
      break;
    }
    if (GpuById(call.model, id) == nullptr) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
  }
  return rm::NV_OK;
}

NvStatus DetachIds(ControlCall& call) {
  const auto params = call.Get<rm::NV0000_CTRL_GPU_DETACH_IDS_PARAMS>();
  for (const rm::NvU32 id : params.gpuIds) {
    if (id == rm::NV0000_CTRL_GPU_INVALID_ID || id == rm::NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS) {
      break;
    }
    if (GpuById(call.model, id) == nullptr) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
  }
  return rm::NV_OK;
}

// gpu_mgr.c gpumgrGetGpuIdInfoV2(), and the older form with a name pointer that is left alone.
template <class Params>
NvStatus IdInfo(ControlCall& call) {
  auto params = call.Get<Params>();
  const Gpu* gpu = GpuById(call.model, params.gpuId);
  if (gpu == nullptr) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.gpuFlags = call.model.ProcessesOn(static_cast<int>(gpu->index), 0x2080).empty() ? 0 : 1;
  params.deviceInstance = gpu->index;
  params.subDeviceInstance = 0;
  params.sliStatus = 0;
  params.boardId = gpu->gpu_id;
  params.gpuInstance = gpu->index;
  params.numaId = static_cast<rm::NvS32>(kNoNumaNode);
  call.Put(params);
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdGpuAsyncAttachId_IMPL() and cliresCtrlCmdGpuWaitAttachId_IMPL():
// there is nothing to attach, and nothing to wait for.
NvStatus AsyncAttachId(ControlCall& call) {
  return GpuById(call.model, call.Get<rm::NvU32>()) == nullptr ? rm::NV_ERR_INVALID_ARGUMENT
                                                               : rm::NV_OK;
}

NvStatus WaitAttachId(ControlCall& /*call*/) {
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdGpuQueryGpuDrainState_IMPL(): nobody drains a GPU here.
NvStatus QueryDrainState(ControlCall& call) {
  struct Params {  // NV0000_CTRL_GPU_QUERY_DRAIN_STATE_PARAMS
    rm::NvU32 gpuId;
    rm::NvU32 drainState;
    rm::NvU32 flags;
  };
  auto params = call.Get<Params>();
  if (GpuById(call.model, params.gpuId) == nullptr) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  params.drainState = 0;
  params.flags = 0;
  call.Put(params);
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdGpuGetPciInfo_IMPL().
NvStatus PciInfo(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS>();
  const Gpu* gpu = GpuById(call.model, params.gpuId);
  if (gpu == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  params.domain = 0;
  params.bus = static_cast<rm::NvU16>(gpu->pci_bus);
  params.slot = 0;
  call.Put(params);
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdGpuGetUuidInfo_IMPL().
NvStatus UuidInfo(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS>();
  for (const Gpu& gpu : call.model.Gpus()) {
    rm::NvU8 uuid[256] = {};
    const rm::NvU32 length = PutUuid(gpu, params.flags, uuid);
    if (length != 0 && std::memcmp(uuid, params.gpuUuid, length) == 0) {
      params.gpuId = gpu.gpu_id;
      params.deviceInstance = gpu.index;
      params.subdeviceInstance = 0;
      call.Put(params);
      return rm::NV_OK;
    }
  }
  return rm::NV_ERR_OBJECT_NOT_FOUND;
}

// client_resource.c cliresCtrlCmdGpuGetUuidFromGpuId_IMPL().
NvStatus UuidFromGpuId(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS>();
  const Gpu* gpu = GpuById(call.model, params.gpuId);
  if (gpu == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if ((params.flags & kUuidTypeMask) != 0) {
    return rm::NV_ERR_INVALID_FLAGS;
  }
  params.uuidStrLen = PutUuid(*gpu, params.flags, params.gpuUuid);
  call.Put(params);
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdClientGetHandleInfo_IMPL().
NvStatus HandleInfo(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS>();
  const Object* object = DriverModel::FindObject(call.client, params.hObject);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  switch (params.index) {
    case rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_PARENT:
      params.data.hResult = object->parent;
      break;
    case rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID:
      params.data.iResult = object->cls;
      break;
    default:
      return rm::NV_ERR_INVALID_ARGUMENT;
  }
  call.Put(params);
  return rm::NV_OK;
}

// client_resource.c cliresCtrlCmdClientGetAccessRights_IMPL(): any client may be named, so that it
// tells whether a client or an object of somebody else exists.
NvStatus AccessRights(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS>();
  Client* client = call.model.FindClient(params.hClient);
  if (client == nullptr) {
    return rm::NV_ERR_INVALID_CLIENT;
  }
  const Object* object = DriverModel::FindObject(*client, params.hObject);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  params.maskResult.limbs[0] =
      call.model.MayDup(*client, *object, call.client) ? 1U << rm::RS_ACCESS_DUP_OBJECT : 0;
  call.Put(params);
  return rm::NV_OK;
}

NvStatus ObjectsAreDuplicates(ControlCall& call) {
  auto params = call.Get<rm::NV0000_CTRL_CLIENT_OBJECTS_ARE_DUPLICATES_PARAMS>();
  const Object* first = DriverModel::FindObject(call.client, params.hObject1);
  const Object* second = DriverModel::FindObject(call.client, params.hObject2);
  if (first == nullptr || second == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (first->block == nullptr) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  params.bDuplicates = first->block == second->block ? 1 : 0;
  call.Put(params);
  return rm::NV_OK;
}

using enum ObjectKind;
constexpr ControlEntry kSystemEntries[] = {
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, kClient, BuildVersionV2},
    {rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, kClient, AttachedIds},
    {rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO, kClient, IdInfo<rm::NV0000_CTRL_GPU_GET_ID_INFO_PARAMS>},
    {rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, kClient,
     IdInfo<rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS>},
    {rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, kClient, ProbedIds},
    {rm::NV0000_CTRL_CMD_GPU_ATTACH_IDS, kClient, AttachIds},
    {rm::NV0000_CTRL_CMD_GPU_DETACH_IDS, kClient, DetachIds},
    {rm::NV0000_CTRL_CMD_GPU_GET_PCI_INFO, kClient, PciInfo},
    {rm::NV0000_CTRL_CMD_GPU_QUERY_DRAIN_STATE, kClient, QueryDrainState},
    {rm::NV0000_CTRL_CMD_GPU_ASYNC_ATTACH_ID, kClient, AsyncAttachId},
    {rm::NV0000_CTRL_CMD_GPU_WAIT_ATTACH_ID, kClient, WaitAttachId},
    {rm::NV0000_CTRL_CMD_GPU_GET_UUID_INFO, kClient, UuidInfo},
    {rm::NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID, kClient, UuidFromGpuId},
    {rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS, kClient, ActiveDeviceIds},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, kClient, HandleInfo},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS, kClient, AccessRights},
    {rm::NV0000_CTRL_CMD_CLIENT_OBJECTS_ARE_DUPLICATES, kClient, ObjectsAreDuplicates},
};

}  // namespace

std::span<const ControlEntry> SystemControls() {
  return kSystemEntries;
}

rm::NvU32 PutUuid(const Gpu& gpu, rm::NvU32 flags, std::span<rm::NvU8> out) {
  if (rm::kUuidFormatField.Get(flags) == rm::kUuidFormatBinary) {
    if (out.size() < gpu.uuid.size()) {
      return 0;
    }
    std::copy(gpu.uuid.begin(), gpu.uuid.end(), out.begin());
    return static_cast<rm::NvU32>(gpu.uuid.size());
  }
  const std::string text = gpu.UuidText();
  if (out.size() < text.size() + 1) {
    return 0;
  }
  std::copy(text.begin(), text.end(), out.begin());
  out[text.size()] = 0;
  return static_cast<rm::NvU32>(text.size() + 1);
}

const ControlEntry* FindControlEntry(rm::NvU32 cmd) {
  for (const auto entries : {SystemControls(), ExportControls(), DeviceControls(), BoardControls(),
                             MemoryControls(), ChannelControls(), GraphicsControls(),
                             TenantControls(), EventControls(), StartControls(), ErrorControls()}) {
    for (const ControlEntry& entry : entries) {
      if (entry.cmd == cmd) {
        return &entry;
      }
    }
  }
  return nullptr;
}

}  // namespace cgpu::sim
