// RM_ALLOC: what each class makes.
#include <algorithm>

#include "rm/class_table.h"
#include "rm/nv_classes.h"
#include "sim/model/alloc_params.h"
#include "sim/model/class_rules.h"

namespace cgpu::sim {
namespace {

// NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED in src/common/sdk/nvidia/inc/nvos.h
constexpr rm::NvU32 kVaSpaceExternallyOwned = 1U << 3;

struct MapperParams {  // NV_MEMORY_MAPPER_ALLOCATION_PARAMS in class/cl00fe.h: its beginning
  rm::NvHandle hSemaphoreSurface;
  rm::NvU32 maxQueueSize;
};

// Is this a class that the GPU must have, and has not?
bool GpuLacksClass(const GpuModel& model, ObjectKind kind, rm::NvU32 cls) {
  return (kind == ObjectKind::kChannel || kind == ObjectKind::kUserMode ||
          kind == ObjectKind::kEngine) &&
         !model.chip->Has(cls);
}

}  // namespace

// alloc_free.c serverAllocResourceUnderLock(), in its order of checks.
NvStatus DriverModel::Alloc(FileId file, const CallerView& caller, AllocRequest& request) {
  const ClassRule* rule = FindClassRule(request.cls);
  if (!rm::ClassKnown(abi_, request.cls)) {
    return rm::NV_ERR_INVALID_CLASS;
  }
  Client* client = nullptr;
  NvStatus status = UseClient(file, request.client, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  if (rule == nullptr) {  // of chips that are not simulated
    return FindObject(*client, request.parent) == nullptr ? rm::NV_ERR_OBJECT_NOT_FOUND
                                                          : rm::NV_ERR_INVALID_CLASS;
  }
  if (rule->access == ClassAccess::kKernel ||
      (rule->access == ClassAccess::kAdmin && !caller.admin)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  if (request.handle == request.client) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;  // only a client lies below nothing
  }
  const Object* parent = FindObject(*client, request.parent);
  if (parent == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if ((rule->parents & ParentBit(parent->kind)) == 0) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;
  }
  status = AssignHandle(*client, &request.handle);
  if (status != rm::NV_OK) {
    return status;
  }
  if (!rule->modelled) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  Object object;
  object.handle = request.handle;
  object.parent = request.parent;
  object.cls = request.cls;
  object.kind = rule->kind;
  object.gpu = parent->gpu;
  status = Construct(*client, caller, request, object);
  if (status == rm::NV_OK) {
    Link(*client, std::move(object));
  }
  return status;
}

NvStatus DriverModel::Construct(Client& client, const CallerView& caller, AllocRequest& request,
                                Object& object) {
  if (object.gpu >= 0 &&
      GpuLacksClass(*gpus_[static_cast<std::size_t>(object.gpu)].model, object.kind, object.cls)) {
    return rm::NV_ERR_INVALID_CLASS;
  }
  switch (object.kind) {
    case ObjectKind::kDevice:
      return ConstructDevice(caller, request, object);
    case ObjectKind::kSubdevice:
      // A device without SLI has subdevice 0 alone.
      return Params<rm::NV2080_ALLOC_PARAMETERS>(request).subDeviceId == 0
                 ? rm::NV_OK
                 : rm::NV_ERR_INVALID_ARGUMENT;
    case ObjectKind::kMemory:
      return ConstructMemory(client, request, object);
    case ObjectKind::kVirtualMemory:
      if (object.cls == rm::NV50_MEMORY_VIRTUAL) {
        return ConstructInterval(client, request, object);
      }
      return ConstructAddresses(client, request.parent,
                                Params<rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS>(request).hVASpace,
                                object);
    case ObjectKind::kUserMode: {
      constexpr rm::NvU64 kUserModeBytes = 65536;
      object.block = std::make_shared<Block>(next_block_++, object.gpu, kUserModeBytes, Charge());
      object.block->registers = true;
      return rm::NV_OK;
    }
    case ObjectKind::kDebugger:
      return ConstructDebugger(client, request);
    case ObjectKind::kContextDma:
      return ConstructContextDma(client, request, object);
    case ObjectKind::kEngine:
      return ConstructVideoEngine(request, object);
    case ObjectKind::kChannelGroup:
      return ConstructGroup(client, request, object);
    case ObjectKind::kChannel:
      return ConstructChannel(client, request, object);
    case ObjectKind::kContextShare:
      return ConstructContextShare(client, request, object);
    case ObjectKind::kEvent:
      return ConstructEvent(client, request, object);
    case ObjectKind::kVaSpace: {
      const auto params = Params<rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535>(request);
      object.vaspace = std::make_shared<VaSpace>();
      object.vaspace->externally_owned = (params.flags & kVaSpaceExternallyOwned) != 0;
      return ConstructSpace(client, request.parent, params.index, object);
    }
    default:
      if (object.cls == rm::NV_MEMORY_MAPPER) {  // mem_mapper.c memmapperConstruct()
        object.queue = Params<MapperParams>(request).maxQueueSize;
      }
      return object.cls == rm::NV_EVENT_BUFFER ? ConstructEventBuffer(client, request, object)
                                               : rm::NV_OK;
  }
}

NvStatus DriverModel::ConstructContextShare(Client& client, AllocRequest& request, Object& object) {
  const auto params = Params<rm::NV_CTXSHARE_ALLOCATION_PARAMETERS>(request);
  // kernel_ctxshare.c kctxshareapiConstruct()
  if (const NvStatus status = CheckSpace(client, params.hVASpace); status != rm::NV_OK) {
    return status;
  }
  if (params.hVASpace != 0) {
    object.depends_on.insert(params.hVASpace);
  }
  object.space = SpaceNamed(client, params.hVASpace);
  return rm::NV_OK;
}

// device.c deviceConstruct().
NvStatus DriverModel::ConstructDevice(const CallerView& caller, AllocRequest& request,
                                      Object& object) {
  const auto params = Params<rm::NV0080_ALLOC_PARAMETERS>(request);
  if (params.deviceId >= gpus_.size()) {
    return rm::NV_ERR_INVALID_CLASS;
  }
  const Gpu& gpu = gpus_[params.deviceId];
  if (!caller.open_minors.contains(gpu.minor)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  object.gpu = static_cast<int>(gpu.index);
  // device_share.c deviceInitClientShare(): the GPU's global address space, which all such devices
  // share, one of its own, or that of any client's device of this GPU.
  if (params.hClientShare == 0) {
    object.tables = global_tables_[gpu.index];
  } else if (params.hClientShare == request.client) {
    object.tables = std::make_shared<PageTables>(*memory_[gpu.index]);
  } else {
    const Client* share = FindClient(params.hClientShare);
    if (share == nullptr) {
      return rm::NV_ERR_INVALID_OBJECT_HANDLE;
    }
    const auto device =
        std::find_if(share->objects.begin(), share->objects.end(), [&object](const auto& entry) {
          return entry.second.kind == ObjectKind::kDevice && entry.second.gpu == object.gpu;
        });
    if (device == share->objects.end()) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    object.tables = device->second.tables;
  }
  return rm::NV_OK;
}

// event.c eventConstruct().
NvStatus DriverModel::ConstructEvent(Client& client, const AllocRequest& request, Object& object) {
  const auto params = Params<rm::NV0005_ALLOC_PARAMETERS>(request);
  if (object.cls != rm::NV01_EVENT_OS_EVENT) {
    // Kernel callbacks are for the kernel; NV01_EVENT itself is refused by eventInit().
    return object.cls == rm::NV01_EVENT ? rm::NV_ERR_INVALID_CLASS : rm::NV_ERR_ILLEGAL_ACTION;
  }
  const rm::NvHandle source_client =
      params.hParentClient == 0 ? client.handle : params.hParentClient;
  Client* source = FindClient(source_client);
  if (source == nullptr || FindObject(*source, params.hSrcResource) == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT;
  }
  const auto fd = static_cast<rm::NvU32>(params.data);
  if (!os_events_.contains({client.handle, fd})) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  constexpr rm::BitField kIndex{15, 0};  // NV0005_NOTIFY_INDEX_INDEX
  object.os_event =
      OsEventOf{source_client, params.hSrcResource, kIndex.Get(params.notifyIndex), fd};
  return rm::NV_OK;
}

// context_dma.c ctxdmaConstruct().
NvStatus DriverModel::ConstructContextDma(Client& client, const AllocRequest& request,
                                          Object& object) {
  const auto params = Params<rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS>(request);
  const Object* memory = FindObject(client, params.hMemory);
  if (memory == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (memory->block == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  if (params.offset > memory->block->length ||
      params.limit >= memory->block->length - params.offset) {
    return rm::NV_ERR_INVALID_LIMIT;
  }
  object.depends_on.insert(params.hMemory);
  return rm::NV_OK;
}

}  // namespace cgpu::sim
