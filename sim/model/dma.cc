// MAP_MEMORY_DMA and UNMAP_MEMORY_DMA: mappings into the GPU's address spaces that the driver makes
// itself, with page tables on the card.
#include <algorithm>

#include "rm/vidmem.h"
#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/nvos.h, NVOS46_FLAGS_PAGE_SIZE (bits 11:8):
rm::NvU64 PageOf(rm::NvU32 flags, rm::NvU64 of_memory) {
  switch (flags >> 8 & 0xFU) {
    case 1:  // 4KB
    case 3:  // BOTH
      return rm::kPage4K;
    case 2:
      return rm::kPageBig;
    case 4:
    case 5:
      return rm::kPageHuge;
    default:
      return of_memory;
  }
}

constexpr rm::NvU32 kOffsetFixed = 1U << 15;  // NVOS46_FLAGS_DMA_OFFSET_FIXED_TRUE

}  // namespace

// rs_server.c serverInterMap() and mapping.c serverInterMap_Prologue(), in their order of checks.
NvStatus DriverModel::MapDma(FileId file, DmaRequest& request) {
  if (request.length == 0) {
    return rm::NV_ERR_INVALID_LIMIT;
  }
  Client* client = nullptr;
  const NvStatus status =
      UseClient(file, request.client, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  Object* range = FindObject(*client, request.range);
  Object* memory = FindObject(*client, request.memory);
  const Object* device = FindObject(*client, request.device);
  if (range == nullptr || memory == nullptr || device == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (device->kind != ObjectKind::kDevice && device->kind != ObjectKind::kSubdevice) {
    return rm::NV_ERR_INVALID_OBJECT;
  }
  if (memory->block == nullptr || range->tables == nullptr) {
    return rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  if (request.offset > memory->block->length ||
      request.length > memory->block->length - request.offset) {
    return rm::NV_ERR_INVALID_LIMIT;
  }
  const rm::NvU64 page = PageOf(request.flags, memory->block->page_size);
  if ((request.flags & kOffsetFixed) == 0) {
    request.address = range->tables->Reserve(request.length);
  } else if (request.length > ~rm::NvU64{0} - request.address) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (!range->tables->Map(request.address, request.length, page)) {
    return rm::NV_ERR_NO_MEMORY;
  }
  range->dma.push_back(
      DmaMapping{request.device, request.memory, request.address, request.length, page});
  memory->mapped_by.insert(request.range);
  return rm::NV_OK;
}

// rs_server.c serverInterUnmap(): a size of 0 means the whole mapping that begins at the address.
NvStatus DriverModel::UnmapDma(FileId file, const DmaRequest& request) {
  Client* client = nullptr;
  const NvStatus status =
      UseClient(file, request.client, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  Object* range = FindObject(*client, request.range);
  if (range == nullptr || FindObject(*client, request.device) == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (request.length > ~rm::NvU64{0} - request.address) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const rm::NvU64 end = request.address + request.length;
  const auto named = [&](const DmaMapping& m) {
    if (m.device != request.device) {
      return false;
    }
    // The driver cuts a mapping where it reaches over the range; here it goes as a whole.
    return request.length == 0 ? m.address == request.address
                               : m.address < end && m.address + m.length > request.address;
  };
  bool found = request.length != 0;
  for (auto m = range->dma.begin(); m != range->dma.end();) {
    if (!named(*m)) {
      ++m;
      continue;
    }
    found = true;
    range->tables->Unmap(m->address, m->length, m->page);
    m = range->dma.erase(m);
  }
  return found ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
}

// What lies in a range goes with it, and so does every mapping of memory that is freed.
void DriverModel::DropDma(Client& client, Object& object) {
  for (const DmaMapping& m : object.dma) {
    object.tables->Unmap(m.address, m.length, m.page);
  }
  object.dma.clear();
  for (const rm::NvHandle in : object.mapped_by) {
    Object* range = FindObject(client, in);
    if (range == nullptr) {
      continue;
    }
    std::erase_if(range->dma, [&](const DmaMapping& m) {
      if (m.memory != object.handle) {
        return false;
      }
      range->tables->Unmap(m.address, m.length, m.page);
      return true;
    });
  }
}

// vaspace_api.c and virtual_mem.c: which page tables an address space or a range of addresses has.
NvStatus DriverModel::ConstructAddresses(Client& client, rm::NvHandle parent, rm::NvHandle space,
                                         Object& object) {
  if (object.kind == ObjectKind::kVaSpace) {
    object.tables = std::make_shared<PageTables>(*memory_[static_cast<std::size_t>(object.card)]);
    return rm::NV_OK;
  }
  if (space == 0 || space == kNoAddressSpace) {
    const Object* device = &client.objects.at(parent);
    while (device->kind != ObjectKind::kDevice) {
      device = &client.objects.at(device->parent);
    }
    object.tables = space == 0 ? device->tables : nullptr;
    return rm::NV_OK;
  }
  const Object* of = FindObject(client, space);
  if (of == nullptr || of->kind != ObjectKind::kVaSpace) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  object.tables = of->tables;
  object.depends_on.insert(space);
  return rm::NV_OK;
}

}  // namespace cgpu::sim
