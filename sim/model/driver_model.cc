#include "sim/model/driver_model.h"

#include <algorithm>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "sim/model/context_buffers.h"

namespace cgpu::sim {
namespace {

// From src/nvidia/inc/libraries/resserv/resserv.h and rs_client.h:
constexpr rm::NvHandle kClientHandleMask = 0xFFFFF;
constexpr rm::NvHandle kGeneratedBase = 0xCAF00000;
constexpr rm::NvU32 kGeneratedRange = 0x80000;
constexpr rm::NvU64 kSharedDataBytes = 4096;

}  // namespace

DriverModel::DriverModel(std::vector<Gpu> gpus, const rm::Abi& abi)
    : gpus_(std::move(gpus)), abi_(abi), next_linear_address_(rm::NvU64{0x38} << 40) {
  for (const Gpu& gpu : gpus_) {
    memory_.push_back(std::make_unique<GpuMemory>(gpu.memory_bytes));
    global_tables_.push_back(std::make_shared<PageTables>(*memory_.back()));
    bar1_.push_back(std::make_unique<GpuMemory>(gpu.model->bar1_mib * kMiB));
    channel_ids_.push_back(std::make_unique<ChannelIds>());
    group_ids_.push_back(std::make_unique<ChannelIds>());
    encoders_.emplace_back(gpu.model->encoder_sessions);
    constexpr rm::NvU32 kBusErrors = 5;  // as of a link that has had some
    bus_errors_.push_back(kBusErrors);
    ecc_.emplace_back();
    shared_data_.push_back(std::make_shared<Block>(next_block_++, -1, kSharedDataBytes, Charge()));
    shared_data_.back()->shared_data_of = static_cast<int>(gpu.index);
    shared_data_.back()->user_read_only = true;
  }
}

FileId DriverModel::Open(FileKind kind, unsigned minor, std::optional<Identity> opener) {
  const FileId id = next_file_++;
  OpenFile& file = files_[id];
  file.kind = kind;
  file.minor = minor;
  file.opener = opener;
  return id;
}

void DriverModel::Close(FileId id) {
  OpenFile* file = FindFile(id);
  if (file == nullptr || file->closed) {
    return;
  }
  if (!file->registered.empty()) {
    // A GPU file that names this one holds it open (nv.c nv_get_file_private()).
    file->closed = true;
    return;
  }
  DropFile(id);
}

void DriverModel::DropFile(FileId id) {
  OpenFile& file = files_.at(id);
  while (!file.clients.empty()) {
    LeakMappings(clients_.at(*file.clients.begin()), file.opener);
    FreeClient(*file.clients.begin());
  }
  std::erase_if(os_events_, [id](const auto& event) { return event.second == id; });
  const FileId ctl = file.ctl;
  files_.erase(id);
  if (ctl != 0) {
    OpenFile& held = files_.at(ctl);
    held.registered.erase(id);
    if (held.closed && held.registered.empty()) {
      DropFile(ctl);
    }
  }
}

OpenFile* DriverModel::FindFile(FileId id) {
  const auto found = files_.find(id);
  return found == files_.end() ? nullptr : &found->second;
}

FileId DriverModel::ClientFile(FileId id) const {
  const auto found = files_.find(id);
  return found == files_.end() || found->second.ctl == 0 ? id : found->second.ctl;
}

// escape.c, NV_ESC_REGISTER_FD.
NvStatus DriverModel::RegisterFd(FileId id, FileId ctl_id) {
  OpenFile* file = FindFile(id);
  OpenFile* ctl = FindFile(ctl_id);
  if (file == nullptr || file->ctl != 0) {
    return rm::NV_ERR_INVALID_STATE;
  }
  if (ctl == nullptr || ctl->kind != FileKind::kCtl || ctl_id == id || ctl->ctl != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  file->ctl = ctl_id;
  ctl->registered.insert(id);
  return rm::NV_OK;
}

Client* DriverModel::FindClient(rm::NvHandle handle) {
  const auto found = clients_.find(handle);
  return found == clients_.end() ? nullptr : &found->second;
}

Object* DriverModel::FindObject(Client& client, rm::NvHandle handle) {
  const auto found = client.objects.find(handle);
  return found == client.objects.end() ? nullptr : &found->second;
}

// client.c rmclientValidate(): the file must be the one the client was made through.
NvStatus DriverModel::UseClient(FileId file, rm::NvHandle handle, NvStatus missing,
                                Client** client) {
  *client = FindClient(handle);
  if (*client == nullptr) {
    return missing;
  }
  return (*client)->file == ClientFile(file) ? rm::NV_OK : rm::NV_ERR_INVALID_CLIENT;
}

// rs_server.c serverAllocClient().
NvStatus DriverModel::AllocClient(FileId file, const Identity& identity, rm::NvHandle* handle) {
  rm::NvHandle chosen = *handle;
  if (chosen == 0) {
    if (clients_.size() > kClientHandleMask) {
      return rm::NV_ERR_INSUFFICIENT_RESOURCES;
    }
    do {
      chosen = rm::RS_CLIENT_HANDLE_BASE | (next_client_ & kClientHandleMask);
      ++next_client_;
    } while (clients_.contains(chosen));
  } else if (clients_.contains(chosen)) {
    return rm::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  const FileId owner = ClientFile(file);
  Client& client = clients_[chosen];
  client.handle = chosen;
  client.file = owner;
  client.identity = identity;
  Object self;
  self.handle = chosen;
  self.cls = rm::NV01_ROOT_CLIENT;
  self.kind = ObjectKind::kClient;
  client.objects.emplace(chosen, std::move(self));
  files_.at(owner).clients.insert(chosen);
  *handle = chosen;
  return rm::NV_OK;
}

// rs_client.c clientAssignResourceHandle().
NvStatus DriverModel::AssignHandle(Client& client, rm::NvHandle* handle) {
  if (*handle != 0) {
    if (*handle == client.handle) {
      return rm::NV_ERR_INVALID_OBJECT_HANDLE;
    }
    return client.objects.contains(*handle) ? rm::NV_ERR_INSERT_DUPLICATE_NAME : rm::NV_OK;
  }
  for (rm::NvU32 tries = 0; tries < kGeneratedRange; ++tries) {
    const rm::NvHandle next = kGeneratedBase + client.next_generated++ % kGeneratedRange;
    if (!client.objects.contains(next) && next != client.handle) {
      *handle = next;
      return rm::NV_OK;
    }
  }
  return rm::NV_ERR_INSUFFICIENT_RESOURCES;
}

void DriverModel::Link(Client& client, Object object) {
  client.objects.at(object.parent).children.insert(object.handle);
  for (const rm::NvHandle on : object.depends_on) {
    client.objects.at(on).dependants.insert(object.handle);
  }
  const rm::NvHandle handle = object.handle;
  client.objects.insert_or_assign(handle, std::move(object));
}

// rs_server.c serverFreeResourceTree().
NvStatus DriverModel::Free(FileId file, rm::NvHandle handle, rm::NvHandle object) {
  Client* client = nullptr;
  const NvStatus status = UseClient(file, handle, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  if (object == handle) {
    FreeClient(handle);
  } else if (client->objects.contains(object)) {
    FreeTree(*client, object);
  }
  return rm::NV_OK;  // also for an object that does not exist (RS_COMPATABILITY_MODE)
}

void DriverModel::FreeTree(Client& client, rm::NvHandle handle) {
  while (true) {
    const auto found = client.objects.find(handle);
    if (found == client.objects.end()) {
      return;
    }
    Object& object = found->second;
    if (!object.dependants.empty()) {
      FreeTree(client, *object.dependants.begin());
    } else if (!object.children.empty()) {
      FreeTree(client, *object.children.rbegin());
    } else {
      DropDma(client, object);
      for (const rm::NvHandle on : object.depends_on) {
        client.objects.at(on).dependants.erase(handle);
      }
      if (object.kind != ObjectKind::kClient) {
        client.objects.at(object.parent).children.erase(handle);
      }
      client.objects.erase(found);
      return;
    }
  }
}

// rs_client.c clientUnmapResourceRefMappings(), as the end of a client's file calls it: the
// security information is empty, so client.c rmclientValidate_IMPL() takes the user and process
// that run. Where it refuses, refRemoveMapping() forgets the mapping, and its part of BAR1 stays
// taken.
void DriverModel::LeakMappings(Client& client, const std::optional<Identity>& closer) {
  if (!closer || closer->euid == client.identity.euid || closer->tgid == client.identity.tgid) {
    return;
  }
  for (auto& [handle, object] : client.objects) {
    for (Mapping& mapping : object.mappings) {
      leaked_.push_back(std::move(mapping.bar1));
    }
    object.mappings.clear();
  }
}

void DriverModel::FreeClient(rm::NvHandle handle) {
  const auto found = clients_.find(handle);
  if (found == clients_.end()) {
    return;
  }
  const FileId file = found->second.file;
  FreeTree(found->second, handle);
  RevokeSharesWith(found->second);
  clients_.erase(found);
  files_.at(file).clients.erase(handle);
  for (EncoderSessions& encoders : encoders_) {
    encoders.Forget(handle);
  }
  // rm_client_free_os_events()
  std::erase_if(os_events_, [handle](const auto& event) { return event.first.first == handle; });
}

// osapi.c allocate_os_event(): one per (client, descriptor number), and no check of the client.
NvStatus DriverModel::AllocOsEvent(FileId file, rm::NvHandle client, rm::NvU32 fd) {
  const bool added = os_events_.emplace(std::make_pair(client, fd), file).second;
  return added ? rm::NV_OK : rm::NV_ERR_INSUFFICIENT_RESOURCES;
}

NvStatus DriverModel::FreeOsEvent(rm::NvHandle client, rm::NvU32 fd) {
  return os_events_.erase({client, fd}) != 0 ? rm::NV_OK : rm::NV_ERR_INVALID_EVENT;
}

rm::NvU64 DriverModel::GroupBytes(int gpu) const {
  return ContextGroupBytesOf(*gpus_[static_cast<std::size_t>(gpu)].model);
}

bool DriverModel::HasFabric(int gpu) const {
  return gpus_[static_cast<std::size_t>(gpu < 0 ? 0 : gpu)].model->chip->Divisible();
}

}  // namespace cgpu::sim
