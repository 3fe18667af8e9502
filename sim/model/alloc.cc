// RM_ALLOC: what each class makes.
#include <algorithm>
#include <cstring>

#include "rm/class_table.h"
#include "rm/nv_classes.h"
#include "rm/vidmem.h"
#include "sim/model/class_rules.h"
#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

// The class's parameters as a structure, zero where none were given.
template <class T>
T Params(const AllocRequest& request) {
  T params{};
  std::memcpy(&params, request.params.data(), std::min(sizeof(T), request.params.size()));
  return params;
}

template <class T>
void PutParams(const AllocRequest& request, const T& params) {
  std::memcpy(request.params.data(), &params, std::min(sizeof(T), request.params.size()));
}

constexpr rm::NvU64 kSystemPage = 4096;
// NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED in src/common/sdk/nvidia/inc/nvos.h
constexpr rm::NvU32 kVaSpaceExternallyOwned = 1U << 3;

// Is this a class that the card must have, and has not?
bool CardLacksClass(const CardModel& model, ObjectKind kind, rm::NvU32 cls) {
  return (kind == ObjectKind::kChannel || kind == ObjectKind::kUserMode ||
          kind == ObjectKind::kEngine) &&
         !model.chip->Has(cls);
}

}  // namespace

// alloc_free.c serverAllocResourceUnderLock(), in its order of checks.
NvStatus DriverModel::Alloc(FileId file, const CallerView& caller, AllocRequest& request) {
  const ClassRule* rule = FindClassRule(request.cls);
  if (rule == nullptr) {
    return rm::NV_ERR_INVALID_CLASS;
  }
  Client* client = nullptr;
  NvStatus status = UseClient(file, request.client, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  status = AssignHandle(*client, &request.handle);
  if (status != rm::NV_OK) {
    return status;
  }
  if (rule->access == ClassAccess::kKernel ||
      (rule->access == ClassAccess::kAdmin && !caller.admin)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  if (request.parent == 0) {
    request.parent = request.client;
  }
  const Object* parent = FindObject(*client, request.parent);
  if (parent == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if ((rule->parents & ParentBit(parent->kind)) == 0) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;
  }
  if (!rule->modelled) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  Object object;
  object.handle = request.handle;
  object.parent = request.parent;
  object.cls = request.cls;
  object.kind = rule->kind;
  object.card = parent->card;
  status = Construct(*client, caller, request, object);
  if (status == rm::NV_OK) {
    Link(*client, std::move(object));
  }
  return status;
}

NvStatus DriverModel::Construct(Client& client, const CallerView& caller, AllocRequest& request,
                                Object& object) {
  if (object.card >= 0 && CardLacksClass(*cards_[static_cast<std::size_t>(object.card)].model,
                                         object.kind, object.cls)) {
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
      return ConstructMemory(request, object);
    case ObjectKind::kChannelGroup:
      return ConstructGroup(client, request, object);
    case ObjectKind::kChannel:
      return ConstructChannel(client, request, object);
    case ObjectKind::kContextShare: {
      const auto params = Params<rm::NV_CTXSHARE_ALLOCATION_PARAMETERS>(request);
      if (params.hVASpace != 0 && FindObject(client, params.hVASpace) == nullptr) {
        return rm::NV_ERR_OBJECT_NOT_FOUND;
      }
      if (params.hVASpace != 0) {
        object.depends_on.insert(params.hVASpace);
      }
      return rm::NV_OK;
    }
    case ObjectKind::kEvent:
      return ConstructEvent(client, request, object);
    case ObjectKind::kVaSpace: {
      const auto params = Params<rm::NV_VASPACE_ALLOCATION_PARAMETERS_V535>(request);
      object.vaspace = std::make_shared<VaSpace>();
      object.vaspace->externally_owned = (params.flags & kVaSpaceExternallyOwned) != 0;
      return rm::NV_OK;
    }
    default:
      return rm::NV_OK;
  }
}

// device.c deviceConstruct().
NvStatus DriverModel::ConstructDevice(const CallerView& caller, AllocRequest& request,
                                      Object& object) {
  const auto params = Params<rm::NV0080_ALLOC_PARAMETERS>(request);
  if (params.deviceId >= cards_.size()) {
    return rm::NV_ERR_INVALID_CLASS;
  }
  const Card& card = cards_[params.deviceId];
  if (!caller.open_minors.contains(card.minor)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  object.card = static_cast<int>(card.index);
  // device_share.c deviceInitClientShare(): the address space of any client's device of this card.
  if (params.hClientShare != 0 && params.hClientShare != request.client) {
    const Client* share = FindClient(params.hClientShare);
    if (share == nullptr) {
      return rm::NV_ERR_INVALID_OBJECT_HANDLE;
    }
    const bool has_device =
        std::any_of(share->objects.begin(), share->objects.end(), [&object](const auto& entry) {
          return entry.second.kind == ObjectKind::kDevice && entry.second.card == object.card;
        });
    return has_device ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  return rm::NV_OK;
}

// video_mem.c vidmemConstruct() and system_mem.c sysmemConstruct().
NvStatus DriverModel::ConstructMemory(AllocRequest& request, Object& object) {
  auto params = Params<rm::NV_MEMORY_ALLOCATION_PARAMS>(request);
  const bool virtual_flag = (params.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0;
  const rm::NvU32 location = rm::NVOS32_ATTR_LOCATION.Get(params.attr);
  if (params.size == 0 || virtual_flag) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (object.cls == rm::NV01_MEMORY_SYSTEM) {
    if (location == rm::NVOS32_ATTR_LOCATION_VIDMEM) {
      return rm::NV_ERR_INVALID_ARGUMENT;
    }
    const NvStatus status = ConstructSystemMemory(params, object);
    PutParams(request, params);
    return status;
  }
  if (location != rm::NVOS32_ATTR_LOCATION_VIDMEM) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  rm::VidmemRequest size;
  size.size = params.size;
  size.attr = params.attr;
  size.attr2 = params.attr2;
  size.flags = params.flags;
  size.alignment = params.alignment;
  const rm::NvU64 bytes = rm::RoundVidmem(size);
  CardMemory& memory = *memory_[static_cast<std::size_t>(object.card)];
  if (!memory.Take(bytes)) {
    return rm::NV_ERR_NO_MEMORY;
  }
  params.size = rm::ReportedVidmemSize(params.size, params.attr, params.attr2);
  params.limit = params.size - 1;
  // An address is needed only to be plausible: nothing reads it back.
  params.offset = (next_block_ * rm::kPageHuge) % memory.Total();
  object.block =
      std::make_shared<Block>(next_block_++, object.card, params.size, Charge(memory, bytes));
  object.block->page_size = rm::VidmemPageSize(size.size, size.attr, size.attr2);
  object.owns_block = true;
  PutParams(request, params);
  return rm::NV_OK;
}

NvStatus DriverModel::ConstructSystemMemory(rm::NV_MEMORY_ALLOCATION_PARAMS& params,
                                            Object& object) {
  if (params.size > ~rm::NvU64{0} - kSystemPage) {
    return rm::NV_ERR_NO_MEMORY;
  }
  params.size = (params.size + kSystemPage - 1) / kSystemPage * kSystemPage;
  params.limit = params.size - 1;
  object.block = std::make_shared<Block>(next_block_++, -1, params.size, Charge());
  object.owns_block = true;
  return rm::NV_OK;
}

std::shared_ptr<Group> DriverModel::MakeGroup(int card, bool graphics) {
  const rm::NvU64 bytes = graphics ? GroupBytes(card) : 0;
  CardMemory& memory = *memory_[static_cast<std::size_t>(card)];
  if (!memory.Take(bytes)) {
    return nullptr;
  }
  return std::make_shared<Group>(card, Charge(memory, bytes));
}

NvStatus DriverModel::ConstructGroup(Client& client, const AllocRequest& request, Object& object) {
  const auto params = Params<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(request);
  if (params.hVASpace != 0) {
    if (FindObject(client, params.hVASpace) == nullptr) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    object.depends_on.insert(params.hVASpace);  // kernel_channel_group_api.c
  }
  // Engine type 0 stands for graphics (kernel_channel_group_api.c).
  const bool graphics = params.engineType == rm::NV2080_ENGINE_TYPE_NULL ||
                        params.engineType == rm::NV2080_ENGINE_TYPE_GRAPHICS;
  object.group = MakeGroup(object.card, graphics);
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
  if (client.objects.at(request.parent).kind == ObjectKind::kDevice) {
    // The driver makes a group of its own for it (kernel_channel.c).
    const bool graphics = params.engineType == rm::NV2080_ENGINE_TYPE_NULL ||
                          params.engineType == rm::NV2080_ENGINE_TYPE_GRAPHICS;
    object.group = MakeGroup(object.card, graphics);
    return object.group == nullptr ? rm::NV_ERR_NO_MEMORY : rm::NV_OK;
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
  return os_events_.contains({client.handle, fd}) ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
}

}  // namespace cgpu::sim
