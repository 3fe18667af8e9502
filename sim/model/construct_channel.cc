// RM_ALLOC of channel groups, channels and what hangs on them.
#include "rm/channel_params.h"
#include "rm/nv_classes.h"
#include "sim/model/alloc_params.h"

namespace cgpu::sim {
namespace {

// NVIDIA/open-gpu-kernel-modules src/common/sdk/nvidia/inc/ctrl/ctrl2080/ctrl2080mc.h

// Engine type 0 stands for graphics (kernel_channel_group_api.c).
rm::NvU32 EngineOf(rm::NvU32 engine_type) {
  return engine_type == rm::NV2080_ENGINE_TYPE_NULL ? rm::NV2080_ENGINE_TYPE_GRAPHICS : engine_type;
}

}  // namespace

rm::NvU32 DriverModel::PoolOf(int gpu, rm::NvU32 runlist) const {
  const bool per_runlist =
      gpus_[static_cast<std::size_t>(gpu)].model->chip->architecture >= kAmpere;
  return per_runlist ? runlist : 0;
}

// kernel_channel_group.c kchangrpInit_IMPL(): a number, then the buffers.
NvStatus DriverModel::MakeGroup(int gpu, rm::NvU32 engine_type, std::shared_ptr<Group>* group) {
  const rm::NvU32 engine = EngineOf(engine_type);
  const auto index = static_cast<std::size_t>(gpu);
  auto id = group_ids_[index]->Take(PoolOf(gpu, engine));
  if (id == nullptr) {
    return rm::NV_ERR_NO_FREE_FIFOS;  // kfifoChidMgrAllocChannelGroupHwID()
  }
  const rm::NvU64 bytes = engine == rm::NV2080_ENGINE_TYPE_GRAPHICS ? GroupBytes(gpu) : 0;
  GpuMemory& memory = *memory_[index];
  if (!memory.Take(bytes)) {
    return rm::NV_ERR_NO_MEMORY;
  }
  *group = std::make_shared<Group>(gpu, engine, std::move(id), Charge(memory, bytes));
  return rm::NV_OK;
}

// nvos.h, prohibitMultipleInstances. What the firmware answers is not public.
NvStatus DriverModel::ConstructVideoEngine(const AllocRequest& request, Object& object) const {
  const rm::NvU32 kind = object.cls & 0xFFU;
  if (kind != 0xB0 && kind != 0xB7 && kind != 0xD1 && kind != 0xFA) {  // *_VIDEO_*
    return rm::NV_OK;
  }
  struct VideoParams {
    rm::NvU32 size;
    rm::NvU32 prohibitMultipleInstances;
  };
  object.exclusive = Params<VideoParams>(request).prohibitMultipleInstances != 0;
  for (const auto& [handle, client] : clients_) {
    for (const auto& [object_handle, other] : client.objects) {
      if (other.cls == object.cls && other.gpu == object.gpu &&
          (other.exclusive || object.exclusive)) {
        return rm::NV_ERR_STATE_IN_USE;
      }
    }
  }
  return rm::NV_OK;
}

NvStatus DriverModel::ConstructGroup(Client& client, const AllocRequest& request, Object& object) {
  const auto params = Params<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(request);
  if (const NvStatus status = CheckSpace(client, params.hVASpace); status != rm::NV_OK) {
    return status;
  }
  if (params.hVASpace != 0) {
    object.depends_on.insert(params.hVASpace);  // kernel_channel_group_api.c
    object.space = SpaceNamed(client, params.hVASpace);
  }
  object.setup.error_handle = params.hObjectError;
  object.original = true;
  return MakeGroup(object.gpu, params.engineType, &object.group);
}

// vaspace.c vaspaceGetByHandleOrDeviceDefault(): an address space, and nothing else.
NvStatus DriverModel::CheckSpace(Client& client, rm::NvHandle handle) {
  if (handle == 0) {
    return rm::NV_OK;
  }
  const Object* space = FindObject(client, handle);
  if (space == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  return space->kind == ObjectKind::kVaSpace ? rm::NV_OK : rm::NV_ERR_INVALID_OBJECT_HANDLE;
}

// kernel_channel.c kchannelConstruct(): a channel in a group may name a context share of that
// group, one outside of a group an address space.
NvStatus DriverModel::CheckNamed(Client& client, const rm::ChannelParams& params,
                                 const Object& parent) {
  const bool lone = parent.kind == ObjectKind::kDevice;
  if ((lone ? params.hContextShare : params.hVASpace) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (lone || params.hContextShare == 0) {
    return CheckSpace(client, params.hVASpace);
  }
  const Object* share = FindObject(client, params.hContextShare);
  if (share == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (share->kind != ObjectKind::kContextShare) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  return share->parent == parent.handle ? rm::NV_OK : rm::NV_ERR_INVALID_OBJECT_PARENT;
}

NvStatus DriverModel::ConstructChannel(Client& client, const AllocRequest& request,
                                       Object& object) {
  const rm::ChannelParams params = rm::ReadChannelParams(abi_.branch, request.params);
  const Object& parent = client.objects.at(request.parent);
  if (const NvStatus status = CheckNamed(client, params, parent); status != rm::NV_OK) {
    return status;
  }
  for (const rm::NvHandle on : {params.hContextShare, params.hVASpace}) {
    if (on != 0) {
      object.depends_on.insert(on);
    }
  }
  const Group* group = parent.group.get();
  if (parent.kind == ObjectKind::kDevice) {
    // The driver makes a group of its own for it (kernel_channel.c).
    if (const NvStatus status = MakeGroup(object.gpu, params.engineType, &object.group);
        status != rm::NV_OK) {
      return status;
    }
    group = object.group.get();
  }
  SetUpChannel(client, params, parent, object);
  // kernel_fifo.c kfifoChidMgrAllocChid()
  object.channel_id =
      channel_ids_[static_cast<std::size_t>(object.gpu)]->Take(PoolOf(object.gpu, group->runlist));
  return object.channel_id == nullptr ? rm::NV_ERR_NO_MEMORY : rm::NV_OK;
}

SpaceOf DriverModel::SpaceNamed(Client& client, rm::NvHandle handle) {
  const Object* object = handle == 0 ? nullptr : FindObject(client, handle);
  if (object == nullptr) {
    return {};
  }
  return object->kind == ObjectKind::kContextShare ? object->space
                                                   : SpaceOf{object->tables, object->vaspace};
}

// kernel_channel.c kchannelConstruct(): the address space is the context share's, the one it names
// itself, its group's, or the device's own.
void DriverModel::SetUpChannel(Client& client, const rm::ChannelParams& params,
                               const Object& parent, Object& object) {
  const auto block_of = [&client](rm::NvHandle handle) {
    const Object* memory = handle == 0 ? nullptr : FindObject(client, handle);
    return memory == nullptr ? std::weak_ptr<Block>() : std::weak_ptr<Block>(memory->block);
  };
  object.setup.gpfifo = params.gpFifoOffset;
  object.setup.entries = params.gpFifoEntries;
  object.setup.userd = block_of(params.hUserdMemory);
  object.setup.userd_offset = params.userdOffset;
  object.setup.errors =
      block_of(params.hObjectError != 0 ? params.hObjectError : parent.setup.error_handle);
  const Object* device = &parent;
  while (device->kind != ObjectKind::kDevice) {
    device = &client.objects.at(device->parent);
  }
  for (const SpaceOf& space :
       {SpaceNamed(client, params.hContextShare), SpaceNamed(client, params.hVASpace), parent.space,
        SpaceOf{device->tables, {}}}) {
    if (!space.tables.expired()) {
      object.space = space;
      return;
    }
  }
}

// kernel_sm_debugger_session.c ksmdbgssnConstruct(): it debugs an object of a client that it names.
NvStatus DriverModel::ConstructDebugger(Client& client, const AllocRequest& request) {
  struct NV83DE_ALLOC_PARAMETERS {  // class/cl83de.h
    rm::NvHandle hDebuggerClient_Obsolete;
    rm::NvHandle hAppClient;
    rm::NvHandle hClass3dObject;
  };
  const auto params = Params<NV83DE_ALLOC_PARAMETERS>(request);
  Client* app = params.hAppClient == 0 ? &client : FindClient(params.hAppClient);
  const Object* object = app == nullptr ? nullptr : FindObject(*app, params.hClass3dObject);
  if (object == nullptr || object->kind != ObjectKind::kEngine) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  return app->identity.tgid == client.identity.tgid || app->identity.euid == client.identity.euid
             ? rm::NV_OK
             : rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
}

}  // namespace cgpu::sim
