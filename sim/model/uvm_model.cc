#include "sim/model/uvm_model.h"

#include <algorithm>
#include <cstring>

namespace cgpu::sim {
namespace {

std::pair<int, int> Ordered(int a, int b) {
  return {std::min(a, b), std::max(a, b)};
}

}  // namespace

// uvm.c uvm_release().
void UvmModel::Close(FileId file) {
  if (const auto mm = mm_files_.extract(file); !mm.empty()) {
    if (UvmSpace* space = Find(mm.mapped())) {
      space->mm = UvmMm::kReleased;
      for (const auto& [gpu, registered] : space->gpus) {
        StopChannels(*space, gpu);
      }
    }
    return;
  }
  const auto found = spaces_.find(file);
  if (found == spaces_.end()) {
    return;
  }
  UvmSpace& space = found->second;
  space.managed.clear();
  Uncharge(space);
  while (!space.order.empty()) {
    DropGpu(space, space.order.back());
  }
  spaces_.erase(found);
}

UvmSpace* UvmModel::Find(FileId file) {
  const auto found = spaces_.find(file);
  return found == spaces_.end() ? nullptr : &found->second;
}

// uvm.c uvm_api_initialize(), uvm_va_space.c uvm_va_space_create().
NvStatus UvmModel::Initialize(FileId file, std::uint32_t tgid, rm::NvU64 flags) {
  if (mm_files_.contains(file)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (const UvmSpace* space = Find(file)) {
    return space->flags == flags ? rm::NV_OK : rm::NV_ERR_INVALID_ARGUMENT;
  }
  if ((flags & ~rm::UVM_INIT_FLAGS_MASK) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  UvmSpace& space = spaces_[file];
  space.flags = flags;
  space.tgid = tgid;
  return rm::NV_OK;
}

// uvm.c uvm_api_mm_initialize().
NvStatus UvmModel::InitializeMm(FileId file, FileId target) {
  UvmSpace* space = Find(target);
  if (space == nullptr) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (space->Sharing()) {
    return rm::NV_WARN_NOTHING_TO_DO;
  }
  if (Find(file) != nullptr || mm_files_.contains(file)) {
    return rm::NV_ERR_IN_USE;
  }
  switch (space->mm) {
    case UvmMm::kAlive:
      return rm::NV_ERR_INVALID_STATE;
    case UvmMm::kReleased:
      return rm::NV_ERR_PAGE_TABLE_NOT_AVAIL;
    case UvmMm::kUninitialized:
      break;
  }
  space->mm = UvmMm::kAlive;
  mm_files_[file] = target;
  return rm::NV_OK;
}

int UvmModel::GpuOf(const rm::NvProcessorUuid& uuid) const {
  for (const Gpu& gpu : driver_.Gpus()) {
    if (std::memcmp(gpu.uuid.data(), uuid.uuid, sizeof(uuid.uuid)) == 0) {
      return static_cast<int>(gpu.index);
    }
  }
  return -1;
}

rm::NvProcessorUuid UvmModel::UuidOf(int gpu) const {
  rm::NvProcessorUuid uuid{};
  const auto& of_gpu = driver_.Gpus()[static_cast<std::size_t>(gpu)].uuid;
  std::copy(of_gpu.begin(), of_gpu.end(), uuid.uuid);
  return uuid;
}

int UvmModel::Registered(const UvmSpace& space, const rm::NvProcessorUuid& uuid) const {
  const int gpu = GpuOf(uuid);
  return space.gpus.contains(gpu) ? gpu : -1;
}

UvmGpuVaSpace* UvmModel::VaSpaceOf(UvmSpace& space, int gpu) {
  const auto found = space.gpus.find(gpu);
  return found == space.gpus.end() ? nullptr : found->second.vaspace.get();
}

// uvm_gpu.c gpu_retain_by_uuid_locked(), nv_gpu_ops.c nvGpuOpsGetGpuInfo(), then uvm_va_space.c
// uvm_va_space_register_gpu(). The handles and the descriptor matter for MIG alone.
NvStatus UvmModel::RegisterGpu(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                               const std::set<unsigned>& open_minors) {
  const int gpu = GpuOf(uuid);
  if (gpu < 0) {
    return rm::NV_ERR_GPU_UUID_NOT_FOUND;
  }
  if (!open_minors.contains(driver_.Gpus()[static_cast<std::size_t>(gpu)].minor)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  if (space.gpus.contains(gpu)) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  if (space.mm == UvmMm::kReleased) {
    return rm::NV_ERR_PAGE_TABLE_NOT_AVAIL;
  }
  space.gpus[gpu];
  space.order.push_back(gpu);
  Recharge(space);
  return rm::NV_OK;
}

NvStatus UvmModel::UnregisterGpu(UvmSpace& space, const rm::NvProcessorUuid& uuid) {
  const int gpu = Registered(space, uuid);
  if (gpu < 0) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  DropGpu(space, gpu);
  return rm::NV_OK;
}

// uvm_va_space.c unregister_gpu(): peers go first, and with them what is mapped across.
void UvmModel::DropGpu(UvmSpace& space, int gpu) {
  while (true) {
    const auto peer = std::find_if(space.peers.begin(), space.peers.end(), [gpu](const auto& pair) {
      return pair.first == gpu || pair.second == gpu;
    });
    if (peer == space.peers.end()) {
      break;
    }
    DropPeers(space, peer->first, peer->second);
  }
  DropVaSpace(space, gpu);
  for (auto& [base, range] : space.ranges) {
    // uvm_va_range_unregister_gpu(): memory of the GPU that others map goes as well.
    for (auto& [on, pieces] : range.pieces) {
      DropPieces(space, range, on, gpu);
    }
  }
  std::erase_if(space.ranges, [gpu](const auto& entry) {
    return entry.second.kind == UvmRangeKind::kDeviceP2p && entry.second.gpu == gpu;
  });
  Uncharge(space);
  space.gpus.erase(gpu);
  std::erase(space.order, gpu);
  Recharge(space);
}

// uvm_va_space.c uvm_va_space_register_gpu_va_space(), nv_gpu_ops.c nvGpuOpsDupAddressSpace(). The
// driver does not look at the descriptor: any client of the calling process will do.
NvStatus UvmModel::RegisterVaSpace(UvmSpace& space, const rm::NvProcessorUuid& uuid,
                                   std::uint32_t tgid, rm::NvHandle client, rm::NvHandle vaspace) {
  const int gpu = Registered(space, uuid);
  if (gpu < 0) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  if (!space.Sharing() && space.mm != UvmMm::kAlive) {
    return rm::NV_ERR_PAGE_TABLE_NOT_AVAIL;
  }
  Client* source = driver_.FindClient(client);
  if (source == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  const Object* object = DriverModel::FindObject(*source, vaspace);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (object->kind != ObjectKind::kVaSpace) {
    return rm::NV_ERR_INVALID_OBJECT;
  }
  if (object->gpu != gpu) {
    return rm::NV_ERR_OTHER_DEVICE_FOUND;
  }
  if (!MayDuplicate(*source, *object, tgid)) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  if (!object->vaspace->externally_owned) {
    return rm::NV_ERR_INVALID_FLAGS;
  }
  UvmGpu& registered = space.gpus.at(gpu);
  if (registered.vaspace != nullptr || object->vaspace->page_directory_set) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  object->vaspace->page_directory_set = true;
  const Chip* chip = driver_.Gpus()[static_cast<std::size_t>(gpu)].model->chip;
  registered.vaspace = std::make_unique<UvmGpuVaSpace>(
      driver_.Memory(gpu), chip->architecture >= kHopper && chip->architecture != kAda,
      object->vaspace);
  for (const auto& [base, range] : space.ranges) {
    if (range.kind == UvmRangeKind::kSemaphorePool) {
      registered.vaspace->tree.Add(base, range.length, rm::kPage4K);
    }
  }
  Recharge(space);
  return rm::NV_OK;
}

NvStatus UvmModel::UnregisterVaSpace(UvmSpace& space, const rm::NvProcessorUuid& uuid) {
  const int gpu = Registered(space, uuid);
  if (gpu < 0 || VaSpaceOf(space, gpu) == nullptr) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  DropVaSpace(space, gpu);
  return rm::NV_OK;
}

// uvm_va_space.c remove_gpu_va_space() and destroy_gpu_va_space().
void UvmModel::DropVaSpace(UvmSpace& space, int gpu) {
  UvmGpuVaSpace* vaspace = VaSpaceOf(space, gpu);
  if (vaspace == nullptr) {
    return;
  }
  StopChannels(space, gpu);
  for (auto& [base, range] : space.ranges) {
    DropPieces(space, range, gpu, kAnyMemory);
    if (range.kind == UvmRangeKind::kDynamicParallelism && range.gpu == gpu) {
      range.gpu = -1;  // the range stays, without its entry
    }
  }
  vaspace->vaspace->page_directory_set = false;
  Uncharge(space);
  space.gpus.at(gpu).vaspace.reset();
  Recharge(space);
}

void UvmModel::StopChannels(UvmSpace& space, int gpu) {
  if (UvmGpuVaSpace* vaspace = VaSpaceOf(space, gpu)) {
    for (const UvmChannel& channel : vaspace->channels) {
      DropChannel(space, *vaspace, channel);
    }
    vaspace->channels.clear();
  }
}

// uvm_va_space.c uvm_api_enable_peer_access().
NvStatus UvmModel::EnablePeers(UvmSpace& space, const rm::NvProcessorUuid& a,
                               const rm::NvProcessorUuid& b) {
  const int first = Registered(space, a);
  const int second = Registered(space, b);
  if (first < 0 || second < 0 || first == second) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  return space.peers.insert(Ordered(first, second)).second ? rm::NV_OK : rm::NV_ERR_INVALID_DEVICE;
}

NvStatus UvmModel::DisablePeers(UvmSpace& space, const rm::NvProcessorUuid& a,
                                const rm::NvProcessorUuid& b) {
  const int first = Registered(space, a);
  const int second = Registered(space, b);
  if (first < 0 || second < 0 || !space.peers.contains(Ordered(first, second))) {
    return rm::NV_ERR_INVALID_DEVICE;
  }
  DropPeers(space, first, second);
  return rm::NV_OK;
}

// uvm_va_range_disable_peer(): what one has mapped of the other's memory goes.
void UvmModel::DropPeers(UvmSpace& space, int a, int b) {
  space.peers.erase(Ordered(a, b));
  for (auto& [base, range] : space.ranges) {
    DropPieces(space, range, a, b);
    DropPieces(space, range, b, a);
  }
}

// The duplicate belongs to a client of the kernel's own, made when the module was loaded, and
// NV04_DUP_HANDLE_FLAGS_REJECT_KERNEL_DUP_PRIVILEGE has the policies asked all the same. Where one
// names the process, it is the calling one (client_resource.c cliresShareCallback()).
bool UvmModel::MayDuplicate(const Client& source, const Object& object, std::uint32_t tgid) const {
  Client kernel;
  kernel.identity.tgid = tgid;
  kernel.identity.euid = 0;
  return driver_.MayDup(source, object, kernel);
}

}  // namespace cgpu::sim
