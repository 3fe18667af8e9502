// MAP_MEMORY, UNMAP_MEMORY and UPDATE_DEVICE_MAPPING_INFO.
#include <algorithm>

#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/nvos.h:
constexpr rm::NvU32 kAccessWriteOnly = 2;  // NVOS33_FLAGS_ACCESS_WRITE_ONLY
constexpr rm::NvU64 kPage = 4096;

auto FindMapping(Object& memory, std::uint32_t tgid, rm::NvU64 address) {
  return std::find_if(memory.mappings.begin(), memory.mappings.end(), [&](const Mapping& m) {
    return m.tgid == tgid && m.linear_address == address;
  });
}

}  // namespace

// mapping_cpu.c serverMap_Prologue().
NvStatus DriverModel::CheckMapContext(Client& client, rm::NvHandle device,
                                      const Object& memory) const {
  if (device == client.handle) {
    return memory.parent == client.handle ? rm::NV_OK : rm::NV_ERR_INVALID_OBJECT_PARENT;
  }
  if (memory.parent == client.handle) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;
  }
  const Object* context = FindObject(client, device);
  if (context == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const bool fits = context->kind == ObjectKind::kDevice || context->kind == ObjectKind::kSubdevice;
  return fits ? rm::NV_OK : rm::NV_ERR_INVALID_OBJECT_PARENT;
}

// nv-usermap.c nv_add_mapping_context_to_file(): one context per file; video memory through a file
// of its GPU, the rest through a control file.
NvStatus DriverModel::AddMapContext(const MapRequest& request, const Object& memory) {
  OpenFile* file = FindFile(request.target);
  if (file == nullptr) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const bool on_gpu = memory.block->gpu >= 0;
  if (file->kind != (on_gpu ? FileKind::kGpu : FileKind::kCtl)) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (file->map) {
    return rm::NV_ERR_STATE_IN_USE;
  }
  if (on_gpu && file->minor != gpus_[static_cast<std::size_t>(memory.block->gpu)].minor) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  MapContext context;
  context.block = memory.block;
  context.offset = request.offset / kPage * kPage;
  context.length = (request.offset % kPage + request.length + kPage - 1) / kPage * kPage;
  context.writable =
      rm::NVOS33_FLAGS_ACCESS.Get(request.flags) != rm::NVOS33_FLAGS_ACCESS_READ_ONLY &&
      !memory.block->user_read_only;
  file->map = std::move(context);
  return rm::NV_OK;
}

// kern_bus_gm107.c kbusMapFbAperture_GM107(): memory of the GPU is seen through BAR1, in pages of
// its own size.
std::unique_ptr<Charge> DriverModel::TakeBar1(const MapRequest& request, const Block& block) {
  if (block.gpu < 0 || block.registers) {
    return std::make_unique<Charge>();
  }
  GpuMemory& bar1 = *bar1_[static_cast<std::size_t>(block.gpu)];
  const rm::NvU64 from = request.offset / block.page_size * block.page_size;
  const rm::NvU64 bytes = (request.offset + request.length - from + block.page_size - 1) /
                          block.page_size * block.page_size;
  return bar1.Take(bytes) ? std::make_unique<Charge>(bar1, bytes) : nullptr;
}

// mapping_cpu.c memMap(), then osapi.c rm_create_mmap_context().
NvStatus DriverModel::MapMemory(FileId file, const CallerView& caller, MapRequest& request) {
  Client* client = nullptr;
  NvStatus status = UseClient(file, request.client, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  Object* memory = FindObject(*client, request.memory);
  if (memory == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  status = CheckMapContext(*client, request.device, *memory);
  if (status != rm::NV_OK) {
    return status;
  }
  if (rm::NVOS33_FLAGS_ACCESS.Get(request.flags) > kAccessWriteOnly) {
    return rm::NV_ERR_INVALID_FLAGS;
  }
  if (memory->block == nullptr) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if (request.offset >= memory->block->length) {
    return rm::NV_ERR_INVALID_BASE;
  }
  if (request.length == 0 || request.length > memory->block->length - request.offset) {
    return rm::NV_ERR_INVALID_LIMIT;
  }
  if (client->identity.tgid != caller.tgid) {
    return rm::NV_ERR_INVALID_CLIENT;
  }
  std::unique_ptr<Charge> bar1 = TakeBar1(request, *memory->block);
  if (bar1 == nullptr) {
    return rm::NV_ERR_NO_MEMORY;
  }
  status = AddMapContext(request, *memory);
  if (status != rm::NV_OK) {
    return status;
  }
  request.linear_address = next_linear_address_ + request.offset % kPage;
  next_linear_address_ += (request.length + 2 * kPage - 1) / kPage * kPage;
  memory->mappings.push_back(Mapping{request.linear_address, caller.tgid, std::move(bar1)});
  return rm::NV_OK;
}

// rs_server.c serverUnmap(): only the process that made a mapping finds it.
NvStatus DriverModel::UnmapMemory(FileId file, const CallerView& caller, rm::NvHandle handle,
                                  rm::NvHandle device, rm::NvHandle memory_handle,
                                  rm::NvU64 linear_address) {
  Client* client = nullptr;
  NvStatus status = UseClient(file, handle, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  Object* memory = FindObject(*client, memory_handle);
  if (memory == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  status = CheckMapContext(*client, device, *memory);
  if (status != rm::NV_OK) {
    return status;
  }
  const auto mapping = FindMapping(*memory, caller.tgid, linear_address);
  if (mapping == memory->mappings.end()) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  memory->mappings.erase(mapping);
  return rm::NV_OK;
}

// osapi.c rm_update_device_mapping_info(): the address user space got from its own mmap replaces
// the one the driver gave. It checks no file.
NvStatus DriverModel::UpdateMapping(const CallerView& caller, rm::NvHandle handle,
                                    rm::NvHandle memory_handle, rm::NvU64 from, rm::NvU64 to) {
  Client* client = FindClient(handle);
  if (client == nullptr) {
    return rm::NV_ERR_INVALID_CLIENT;
  }
  Object* memory = FindObject(*client, memory_handle);
  if (memory == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const auto mapping = FindMapping(*memory, caller.tgid, from);
  if (mapping == memory->mappings.end()) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  mapping->linear_address = to;
  return rm::NV_OK;
}

}  // namespace cgpu::sim
