// RM_ALLOC of channel groups, channels and what hangs on them.
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

std::shared_ptr<Group> DriverModel::MakeGroup(int card, rm::NvU32 engine_type) {
  const rm::NvU32 engine = EngineOf(engine_type);
  const rm::NvU64 bytes = engine == rm::NV2080_ENGINE_TYPE_GRAPHICS ? GroupBytes(card) : 0;
  CardMemory& memory = *memory_[static_cast<std::size_t>(card)];
  if (!memory.Take(bytes)) {
    return nullptr;
  }
  return std::make_shared<Group>(card, engine, Charge(memory, bytes));
}

NvStatus DriverModel::ConstructGroup(Client& client, const AllocRequest& request, Object& object) {
  const auto params = Params<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(request);
  if (params.hVASpace != 0) {
    if (FindObject(client, params.hVASpace) == nullptr) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    object.depends_on.insert(params.hVASpace);  // kernel_channel_group_api.c
  }
  object.group = MakeGroup(object.card, params.engineType);
  return object.group == nullptr ? rm::NV_ERR_NO_MEMORY : rm::NV_OK;
}

NvStatus DriverModel::ConstructChannel(Client& client, const AllocRequest& request,
                                       Object& object) {
  const auto params = Params<rm::NV_CHANNEL_ALLOC_PARAMS_V535>(request);
  for (const rm::NvHandle on : {params.hContextShare, params.hVASpace}) {
    if (on == 0) {
      continue;
    }
    if (FindObject(client, on) == nullptr) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    object.depends_on.insert(on);
  }
  const Object& parent = client.objects.at(request.parent);
  const Group* group = parent.group.get();
  if (parent.kind == ObjectKind::kDevice) {
    // The driver makes a group of its own for it (kernel_channel.c).
    object.group = MakeGroup(object.card, params.engineType);
    if (object.group == nullptr) {
      return rm::NV_ERR_NO_MEMORY;
    }
    group = object.group.get();
  }
  const auto card = static_cast<std::size_t>(object.card);
  const bool per_runlist = cards_[card].model->chip->architecture >= kAmpere;
  // kernel_fifo.c kfifoChidMgrAllocChid()
  object.channel_id = channel_ids_[card]->Take(per_runlist ? group->runlist : 0);
  return object.channel_id == nullptr ? rm::NV_ERR_NO_MEMORY : rm::NV_OK;
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
