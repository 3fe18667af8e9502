// RM_DUP_OBJECT, RM_SHARE, and export and import by file.
#include <algorithm>

#include "rm/nv_classes.h"
#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

// The classes whose resCanCopy() is true.
bool CanCopy(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kMemory:
    case ObjectKind::kVirtualMemory:
    case ObjectKind::kVaSpace:
    case ObjectKind::kChannelGroup:
    case ObjectKind::kContextShare:
    case ObjectKind::kUserMode:
      return true;
    default:
      return false;
  }
}

bool GivesDup(const rm::RS_SHARE_POLICY& policy) {
  return (policy.accessMask.limbs[0] >> rm::RS_ACCESS_DUP_OBJECT & 1U) != 0;
}

// rs_access_map.c rsSharePolicyEquals(): may the two be merged?
bool Alike(const rm::RS_SHARE_POLICY& a, const rm::RS_SHARE_POLICY& b) {
  return a.type == b.type && ((a.action ^ b.action) & rm::RS_SHARE_ACTION_FLAG_REQUIRE) == 0 &&
         (a.type != rm::RS_SHARE_TYPE_CLIENT || a.target == b.target);
}

// rsShareListInsert()
void Insert(const rm::RS_SHARE_POLICY& policy, std::vector<rm::RS_SHARE_POLICY>& list) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& one) { return Alike(one, policy); });
  if (found == list.end()) {
    list.push_back(policy);
  } else {
    found->accessMask.limbs[0] |= policy.accessMask.limbs[0];
  }
}

// rsShareListRemove()
void Revoke(const rm::RS_SHARE_POLICY& policy, std::vector<rm::RS_SHARE_POLICY>& list) {
  std::erase_if(list, [&](auto& one) {
    if (!Alike(one, policy)) {
      return false;
    }
    one.accessMask.limbs[0] &= ~policy.accessMask.limbs[0];
    return one.accessMask.limbs[0] == 0;
  });
}

constexpr rm::NvU16 kShareTypeMax = rm::RS_SHARE_TYPE_FM_CLIENT + 1;
// From src/common/sdk/nvidia/inc/ctrl/ctrl0000/ctrl0000unix.h:
constexpr std::size_t kMaxExportObjects = 512;

}  // namespace

// client_resource.c cliresShareCallback() and rs_resource.c resShareCallback().
bool DriverModel::PolicyMatches(const rm::RS_SHARE_POLICY& policy, const Client& source,
                                const Client& target) {
  switch (policy.type) {
    case rm::RS_SHARE_TYPE_ALL:
      return true;
    case rm::RS_SHARE_TYPE_OS_SECURITY_TOKEN:
      // os.c osValidateClientTokens(): either is enough.
      return source.identity.euid == target.identity.euid ||
             source.identity.tgid == target.identity.tgid;
    case rm::RS_SHARE_TYPE_CLIENT:
      return policy.target == target.handle;
    case rm::RS_SHARE_TYPE_PID:
      return source.identity.tgid == target.identity.tgid;
    case rm::RS_SHARE_TYPE_SMC_PARTITION:
    case rm::RS_SHARE_TYPE_GPU:
      return (policy.action & rm::RS_SHARE_ACTION_FLAG_REQUIRE) != 0;
    default:
      return false;
  }
}

// rs_client.c clientCopyResource(): the nearest list of policies up the tree counts.
bool DriverModel::MayDup(const Client& source, const Object& object, const Client& target) const {
  if (source.handle == target.handle) {
    return true;
  }
  const Object* at = &object;
  while (!at->share && at->kind != ObjectKind::kClient) {
    at = &source.objects.at(at->parent);
  }
  if (!at->share) {
    return source.identity.tgid == target.identity.tgid;  // serverInitGlobalSharePolicies()
  }
  bool allowed = false;
  for (const rm::RS_SHARE_POLICY& policy : *at->share) {
    if (!GivesDup(policy)) {
      continue;
    }
    const bool matches = PolicyMatches(policy, source, target);
    const bool required = (policy.action & rm::RS_SHARE_ACTION_FLAG_REQUIRE) != 0;
    if (required && !matches) {
      return false;
    }
    allowed = allowed || (!required && matches);
  }
  return allowed;
}

// rs_server.c serverCopyResource().
NvStatus DriverModel::Dup(FileId file, DupRequest& request) {
  Client* source = FindClient(request.client_src);
  Client* target = FindClient(request.client);
  if (source == nullptr || target == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  NvStatus status = UseClient(file, request.client, rm::NV_ERR_INVALID_OBJECT_HANDLE, &target);
  if (status != rm::NV_OK) {
    return status;
  }
  const Object* object = FindObject(*source, request.object_src);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (!CanCopy(object->kind)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (FindObject(*target, request.parent) == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (!MayDup(*source, *object, *target)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  Object copy;
  copy.cls = object->cls;
  copy.kind = object->kind;
  copy.gpu = object->gpu;
  copy.block = object->block;
  copy.group = object->group;
  copy.tables = object->tables;
  copy.pinned = object->pinned;
  copy.vaspace = object->vaspace;
  copy.space = object->space;
  const bool under_subdevice = source->objects.at(object->parent).kind == ObjectKind::kSubdevice;
  const bool to_subdevice = target->objects.at(request.parent).kind == ObjectKind::kSubdevice;
  if (object->kind == ObjectKind::kMemory && under_subdevice != to_subdevice) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;  // mem.c memCopyConstruct()
  }
  return AttachCopy(*target, request.parent, std::move(copy), &request.handle);
}

NvStatus DriverModel::AttachCopy(Client& client, rm::NvHandle parent, Object copy,
                                 rm::NvHandle* handle) {
  const Object* above = FindObject(client, parent);
  if (above == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const bool fits =
      copy.kind == ObjectKind::kContextShare
          ? above->kind == ObjectKind::kChannelGroup
          : above->kind == ObjectKind::kDevice || above->kind == ObjectKind::kSubdevice;
  if (!fits) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;
  }
  const NvStatus status = AssignHandle(client, handle);
  if (status != rm::NV_OK) {
    return status;
  }
  copy.handle = *handle;
  copy.parent = parent;
  Link(client, std::move(copy));
  return rm::NV_OK;
}

// rs_client.c clientShareResource().
NvStatus DriverModel::Share(FileId file, rm::NvHandle handle, rm::NvHandle object_handle,
                            const rm::RS_SHARE_POLICY& policy, bool by_escape) {
  if (policy.type >= kShareTypeMax) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  Client* client = FindClient(handle);
  if (policy.type == rm::RS_SHARE_TYPE_CLIENT) {
    // rs_server.c _serverShareResourceAccessClient(): nobody asks whose client the owner is.
    if (client == nullptr || FindClient(policy.target) == nullptr) {
      return rm::NV_ERR_INVALID_OBJECT_HANDLE;
    }
  } else if (const NvStatus status =
                 UseClient(file, handle, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
             status != rm::NV_OK) {
    return status;
  }
  Object* object = FindObject(*client, object_handle);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  // A list without an end: an entry for each call, the first one's again.
  const bool revokes = (policy.action & rm::RS_SHARE_ACTION_FLAG_REVOKE) != 0;
  if (policy.type == rm::RS_SHARE_TYPE_CLIENT &&
      (by_escape || (!revokes && policy.target != handle))) {
    FindClient(policy.target)->shared_with.emplace_back(handle, object_handle);
  }
  const bool compose = (policy.action & rm::RS_SHARE_ACTION_FLAG_COMPOSE) != 0;
  if (!object->share) {
    object->share.emplace();
    if (compose) {
      const Object* at = object;
      while (at->kind != ObjectKind::kClient && (at == object || !at->share)) {
        at = &client->objects.at(at->parent);
      }
      if (at != object && at->share) {
        object->share = at->share;
      } else {
        rm::RS_SHARE_POLICY same_process{};
        same_process.accessMask.limbs[0] = 1U << rm::RS_ACCESS_DUP_OBJECT;
        same_process.type = rm::RS_SHARE_TYPE_PID;
        object->share->push_back(same_process);
      }
    }
  }
  if (!compose) {
    object->share->clear();
  }
  if (revokes) {
    Revoke(policy, *object->share);
  } else {
    Insert(policy, *object->share);
  }
  return rm::NV_OK;
}

// rs_client.c clientFreeAccessBackRefs().
void DriverModel::RevokeSharesWith(const Client& client) {
  rm::RS_SHARE_POLICY all{};
  all.type = rm::RS_SHARE_TYPE_CLIENT;
  all.target = client.handle;
  all.accessMask.limbs[0] = ~0U;
  for (const auto& [owner, handle] : client.shared_with) {
    Client* other = owner == client.handle ? nullptr : FindClient(owner);
    Object* object = other == nullptr ? nullptr : FindObject(*other, handle);
    if (object != nullptr && object->share) {
      Revoke(all, *object->share);
    }
  }
}

// rmobjexportimport.c RmExportObject(): a duplicate that belongs to a client of the driver's own.
// Being made by the kernel it asks no share policy.
NvStatus DriverModel::MakeExported(Client& client, rm::NvHandle handle, Exported* exported) {
  const Object* object = FindObject(client, handle);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (!CanCopy(object->kind)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  exported->block = object->block;
  exported->group = object->group;
  exported->tables = object->tables;
  exported->pinned = object->pinned;
  exported->vaspace = object->vaspace;
  exported->cls = object->cls;
  exported->kind = object->kind;
  exported->gpu = object->gpu;
  return rm::NV_OK;
}

// os.c _initializeExportObjectFd().
NvStatus DriverModel::PrepareExport(Client& client, rm::NvHandle device, FileId target,
                                    unsigned slots, std::span<const rm::NvU8> metadata) {
  OpenFile* file = FindFile(target);
  if (file == nullptr || file->kind != FileKind::kCtl) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  if (file->exports) {
    return rm::NV_ERR_STATE_IN_USE;
  }
  ExportTable table;
  table.device_instance = kMaxGpus;
  if (device != 0) {
    const Object* object = FindObject(client, device);
    if (object == nullptr) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    if (object->kind != ObjectKind::kDevice) {
      return rm::NV_ERR_INVALID_PARAMETER;
    }
    table.device_instance = static_cast<rm::NvU32>(object->gpu);
  }
  table.slots.resize(slots);
  table.metadata.assign(metadata.begin(), metadata.end());
  file->exports = std::move(table);
  return rm::NV_OK;
}

// os.c cliresCtrlCmdOsUnixExportObjectToFd().
NvStatus DriverModel::ExportOne(Client& client, rm::NvHandle device, rm::NvHandle object,
                                FileId target) {
  Exported exported;
  NvStatus status = MakeExported(client, object, &exported);
  if (status != rm::NV_OK) {
    return status;
  }
  status = PrepareExport(client, device, target, 1, {});
  if (status == rm::NV_OK) {
    files_.at(target).exports->slots[0] = std::move(exported);
  }
  return status;
}

// os.c cliresCtrlCmdOsUnixExportObjectsToFd(), after the file was prepared.
NvStatus DriverModel::Export(Client& client, FileId target, unsigned index,
                             std::span<const rm::NvHandle> objects) {
  OpenFile* file = FindFile(target);
  if (file == nullptr || !file->exports || objects.size() > kMaxExportObjects) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  ExportTable& table = *file->exports;
  if (index + objects.size() > table.slots.size()) {
    return rm::NV_ERR_OUT_OF_RANGE;
  }
  std::vector<std::optional<Exported>> made(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (objects[i] == 0) {
      continue;
    }
    Exported exported;
    const NvStatus status = MakeExported(client, objects[i], &exported);
    if (status != rm::NV_OK) {
      return status;
    }
    if (static_cast<rm::NvU32>(exported.gpu) != table.device_instance) {
      return rm::NV_ERR_INVALID_PARAMETER;
    }
    made[i] = std::move(exported);
  }
  std::move(made.begin(), made.end(), table.slots.begin() + index);
  return rm::NV_OK;
}

// rmobjexportimport.c RmImportObject(). A slot with nothing in it is kind kClient and no handle.
NvStatus DriverModel::Import(Client& client, rm::NvHandle parent, FileId target, unsigned index,
                             rm::NvHandle* handle, ObjectKind* kind, bool* on_gpu) {
  OpenFile* file = FindFile(target);
  if (file == nullptr || !file->exports || file->exports->dma_buf) {
    return rm::NV_ERR_INVALID_PARAMETER;
  }
  const ExportTable& table = *file->exports;
  if (index >= table.slots.size()) {
    return rm::NV_ERR_OUT_OF_RANGE;
  }
  if (!table.slots[index]) {
    *kind = ObjectKind::kClient;
    return rm::NV_OK;
  }
  const Exported& exported = *table.slots[index];
  *kind = exported.kind;
  *on_gpu = exported.block != nullptr && exported.block->gpu >= 0;
  Object copy;
  copy.cls = exported.cls;
  copy.kind = exported.kind;
  copy.gpu = exported.gpu;
  copy.block = exported.block;
  copy.group = exported.group;
  copy.tables = exported.tables;
  copy.pinned = exported.pinned;
  copy.vaspace = exported.vaspace;
  return AttachCopy(client, parent, std::move(copy), handle);
}

bool DriverModel::IsUnused(FileId id) const {
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.kind != FileKind::kCtl) {
    return false;
  }
  const OpenFile& file = found->second;
  return file.ctl == 0 && file.registered.empty() && file.clients.empty() &&
         file.attached_gpus.empty() && !file.map && !file.exports;
}

// nv-dmabuf.c nv_dma_buf_create() and nv_dma_buf_reuse(); osapi.c RmDmabufVerifyMemHandle(): memory
// of the GPU whose file it is.
NvStatus DriverModel::ExportDmaBuf(rm::NvHandle client_handle, int gpu, FileId target,
                                   unsigned slots, unsigned index,
                                   std::span<const rm::NvHandle> memory) {
  OpenFile* file = FindFile(target);
  Client* client = FindClient(client_handle);
  if (client == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  if (file == nullptr || (file->exports && !file->exports->dma_buf)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  std::vector<Exported> made(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const NvStatus status = MakeExported(*client, memory[i], &made[i]);
    if (status != rm::NV_OK) {
      return status;
    }
    if (made[i].block == nullptr || made[i].block->gpu != gpu) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
  }
  if (!file->exports) {
    file->exports.emplace();
    file->exports->dma_buf = true;
    file->exports->device_instance = static_cast<rm::NvU32>(gpu);
    file->exports->slots.resize(slots);
  }
  std::vector<std::optional<Exported>>& into = file->exports->slots;
  if (made.size() > into.size() || index > into.size() - made.size()) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  std::move(made.begin(), made.end(), into.begin() + index);
  return rm::NV_OK;
}

}  // namespace cgpu::sim
