// MAP_MEMORY_DMA and UNMAP_MEMORY_DMA: mappings into the GPU's address spaces that the driver makes
// itself, with page tables on the GPU.
#include <algorithm>

#include "rm/vidmem.h"
#include "sim/model/alloc_params.h"
#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 kAddresses = rm::NvU64{1} << 49;  // of a GPU's address space

rm::NvU64 PageOf(rm::NvU32 flags, rm::NvU64 of_memory) {
  switch (rm::NVOS46_FLAGS_PAGE_SIZE.Get(flags)) {
    case rm::NVOS46_FLAGS_PAGE_SIZE_4KB:
    case rm::NVOS46_FLAGS_PAGE_SIZE_BOTH:
      return rm::kPage4K;
    case rm::NVOS46_FLAGS_PAGE_SIZE_BIG:
      return rm::kPageBig;
    case rm::NVOS46_FLAGS_PAGE_SIZE_HUGE:
      return rm::kPageHuge;
    case rm::NVOS46_FLAGS_PAGE_SIZE_512M:
      return rm::kPage512M;
    default:
      return of_memory;
  }
}

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
  if (rm::NVOS46_FLAGS_DMA_OFFSET_FIXED.Get(request.flags) == 0) {
    request.address = range->tables->Reserve(request.length);
  } else if (request.length > kAddresses || request.address > kAddresses - request.length) {
    return rm::NV_ERR_INVALID_ARGUMENT;  // gpu_vaspace.c gvaspaceAlloc_IMPL()
  }
  if (!range->tables->Map(request.address, request.length, page)) {
    return rm::NV_ERR_NO_MEMORY;
  }
  range->tables->Lead(request.address, request.length, memory->block, request.offset);
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
    range->tables->Forget(m->address);
    m = range->dma.erase(m);
  }
  return found ? rm::NV_OK : rm::NV_ERR_OBJECT_NOT_FOUND;
}

// Drops a range's mappings with the range, and the mappings of memory that is freed.
void DriverModel::DropDma(Client& client, Object& object) {
  for (const DmaMapping& m : object.dma) {
    object.tables->Unmap(m.address, m.length, m.page);
    object.tables->Forget(m.address);
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
      range->tables->Forget(m.address);
      return true;
    });
  }
}

// vaspace_api.c vaspaceapiConstruct(): an address space of its own, or one that is there.
NvStatus DriverModel::ConstructSpace(Client& client, rm::NvHandle parent, rm::NvU32 index,
                                     Object& object) {
  const auto gpu = static_cast<std::size_t>(object.gpu);
  switch (index) {
    case rm::NV_VASPACE_ALLOCATION_INDEX_GPU_NEW:
      break;
    case rm::NV_VASPACE_ALLOCATION_INDEX_GPU_GLOBAL:
      object.tables = global_tables_[gpu];
      return rm::NV_OK;
    case rm::NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE:
      return ConstructAddresses(client, parent, 0, object);
    case rm::NV_VASPACE_ALLOCATION_INDEX_GPU_HOST:
      return rm::NV_ERR_INVALID_ARGUMENT;  // for the kernel
    default:
      return rm::NV_ERR_INVALID_STATE;
  }
  object.tables = std::make_shared<PageTables>(*memory_[gpu]);
  if (gpus_[gpu].model->chip->architecture < kTuring) {
    return rm::NV_OK;
  }
  // gpu_vaspace.c _gvaspaceReserveVaForClientRm(): of the range that the GPU's firmware manages,
  // where it has some.
  constexpr rm::NvU64 kFirmwareStart = rm::NvU64{1} << 32;
  return object.tables->Map(kFirmwareStart, rm::kPage512M, rm::kPage512M) ? rm::NV_OK
                                                                          : rm::NV_ERR_NO_MEMORY;
}

// virtual_mem.c: which page tables a range of addresses has.
NvStatus DriverModel::ConstructAddresses(Client& client, rm::NvHandle parent, rm::NvHandle space,
                                         Object& object) {
  if (space == 0 || space == kNoAddressSpace) {
    const Object* device = &client.objects.at(parent);
    while (device->kind != ObjectKind::kDevice) {
      device = &client.objects.at(device->parent);
    }
    object.tables = space == 0 ? device->tables : nullptr;
    return rm::NV_OK;
  }
  if (const NvStatus status = CheckSpace(client, space); status != rm::NV_OK) {
    return status;
  }
  object.tables = FindObject(client, space)->tables;
  object.depends_on.insert(space);
  return rm::NV_OK;
}

// virtual_mem.c virtmemConstruct() and gpu_vaspace.c gvaspaceAlloc(): an interval that is neither
// lazy nor managed by others has its tables from the start, for each kind of pages that it may have
// (gvaspaceApplyDefaultAlignment()). A sparse one has those at its ends, which are not modelled.
NvStatus DriverModel::ConstructInterval(Client& client, AllocRequest& request, Object& object) {
  auto params = Params<rm::NV_MEMORY_ALLOCATION_PARAMS>(request);
  if (params.size == 0 || (params.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) == 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  const NvStatus status = ConstructAddresses(client, request.parent, params.hVASpace, object);
  if (status != rm::NV_OK || object.tables == nullptr) {
    return status;
  }
  const bool fixed = (params.flags & rm::NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE) != 0;
  if (params.size > kAddresses || (fixed && params.offset > kAddresses - params.size)) {
    return rm::NV_ERR_INSUFFICIENT_RESOURCES;
  }
  params.offset = fixed ? params.offset : object.tables->Reserve(params.size);
  constexpr rm::NvU32 kWithout = rm::NVOS32_ALLOC_FLAGS_LAZY |
                                 rm::NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED |
                                 rm::NVOS32_ALLOC_FLAGS_SPARSE;
  if ((params.flags & kWithout) == 0) {
    object.pinned = std::make_shared<PinnedTables>(object.tables);
    const rm::NvU32 pages = rm::NVOS32_ATTR_PAGE_SIZE.Get(params.attr);
    const bool any = pages == rm::NVOS32_ATTR_PAGE_SIZE_DEFAULT;
    for (const auto& [attribute, page] :
         {std::pair(rm::NVOS32_ATTR_PAGE_SIZE_4KB, rm::kPage4K),
          std::pair(rm::NVOS32_ATTR_PAGE_SIZE_BIG, rm::kPageBig),
          std::pair(rm::NVOS32_ATTR_PAGE_SIZE_HUGE, rm::kPageHuge)}) {
      const bool wanted = any ? page != rm::kPageHuge : pages == attribute;
      if (wanted && !object.pinned->Pin(params.offset, params.size, page)) {
        return rm::NV_ERR_INSUFFICIENT_RESOURCES;
      }
    }
  }
  PutParams(request, params);
  return rm::NV_OK;
}

}  // namespace cgpu::sim
