// RM_ALLOC of the classes that make memory.
#include "rm/nv_classes.h"
#include "rm/vidmem.h"
#include "sim/model/alloc_params.h"

namespace cgpu::sim {
namespace {

constexpr rm::NvU64 kSystemPage = 4096;

// class/cl00c2.h
struct NV_PHYSICAL_MEMORY_ALLOCATION_PARAMS {
  rm::NvU64 memSize;
  rm::NvU32 format;
  rm::NvU64 pageSize;
};
static_assert(sizeof(NV_PHYSICAL_MEMORY_ALLOCATION_PARAMS) == 24);

// class/cl84a0.h
struct NV_MEMORY_LIST_ALLOCATION_PARAMS {
  rm::NvHandle hClient;
  rm::NvHandle hParent;
  rm::NvHandle hObject;
  rm::NvHandle hHwResClient;
  rm::NvHandle hHwResDevice;
  rm::NvHandle hHwResHandle;
  rm::NvU32 pteAdjust;
  rm::NvU32 reserved_0;
  rm::NvU32 unused[11];
  rm::NvU64 guestId;
  rm::NvU64 rangeBegin;
  rm::NvU64 rangeEnd;
  rm::NvU32 pitch;
  rm::NvU32 ctagOffset;
  rm::NvU64 size;
  rm::NvU64 align;
  rm::NvP64 pageNumberList;
  rm::NvU64 limit;
  rm::NvU32 flagsOs02;
};
static_assert(sizeof(NV_MEMORY_LIST_ALLOCATION_PARAMS) == 152);

// class/cl00da.h
struct NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS {
  rm::NvHandle hSemaphoreMem;
  rm::NvHandle hMaxSubmittedMem;
  rm::NvU64 flags;
};
static_assert(sizeof(NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS) == 16);

// From src/common/sdk/nvidia/inc/nvos.h, NVOS32_DESCRIPTOR_TYPE_*:
constexpr rm::NvU32 kVirtualAddress = 0;
constexpr rm::NvU32 kOsPhysAddr = 3;
constexpr rm::NvU32 kOsFileHandle = 4;

}  // namespace

NvStatus DriverModel::ConstructMemory(Client& client, AllocRequest& request, Object& object) {
  switch (object.cls) {
    case rm::NV01_MEMORY_LOCAL_USER:
      return ConstructVidmem(request, object);
    case rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
      return ConstructOsDescriptor(request, object);
    case rm::NV01_MEMORY_LOCAL_PHYSICAL:
      return ConstructPhysical(request, object);
    case rm::NV01_MEMORY_LIST_SYSTEM:
    case rm::NV01_MEMORY_LIST_FBMEM:
    case rm::NV01_MEMORY_LIST_OBJECT:
      return ConstructList(request, object);
    case rm::RM_USER_SHARED_DATA:
      object.block = shared_data_[static_cast<std::size_t>(object.gpu)];
      return rm::NV_OK;
    case rm::NV_SEMAPHORE_SURFACE: {
      const auto params = Params<NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS>(request);
      const Object* memory = FindObject(client, params.hSemaphoreMem);
      if (memory == nullptr || memory->kind != ObjectKind::kMemory) {
        return rm::NV_ERR_OBJECT_NOT_FOUND;
      }
      object.depends_on.insert(params.hSemaphoreMem);
      return rm::NV_OK;
    }
    case rm::NV_MEMORY_FABRIC:
    case rm::NV_MEMORY_MULTICAST_FABRIC:
      // Addresses of an NVLink fabric; memory is attached to them later.
      return HasFabric(object.gpu) ? rm::NV_OK : rm::NV_ERR_NOT_SUPPORTED;
    default:
      return ConstructSystemMemory(request, object);
  }
}

// video_mem.c vidmemConstruct().
NvStatus DriverModel::ConstructVidmem(AllocRequest& request, Object& object) {
  auto params = Params<rm::NV_MEMORY_ALLOCATION_PARAMS>(request);
  const bool virtual_flag = (params.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0;
  if (params.size == 0 || virtual_flag ||
      rm::NVOS32_ATTR_LOCATION.Get(params.attr) != rm::NVOS32_ATTR_LOCATION_VIDMEM) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  rm::VidmemRequest size;
  size.size = params.size;
  size.attr = params.attr;
  size.attr2 = params.attr2;
  size.flags = params.flags;
  size.alignment = params.alignment;
  const rm::NvU64 bytes = rm::RoundVidmem(size);
  GpuMemory& memory = *memory_[static_cast<std::size_t>(object.gpu)];
  if (!memory.Take(bytes)) {
    return rm::NV_ERR_NO_MEMORY;
  }
  const rm::NvU64 page = rm::VidmemPageSize(params.size, params.attr, params.attr2);
  params.size = rm::ReportedVidmemSize(params.size, params.attr, params.attr2);
  params.limit = params.size - 1;
  // An address is needed only to be plausible: nothing reads it back.
  params.offset = (next_block_ * rm::kPageHuge) % memory.Total();
  object.block =
      std::make_shared<Block>(next_block_++, object.gpu, params.size, Charge(memory, bytes));
  object.block->page_size = page;
  object.original = true;
  PutParams(request, params);
  return rm::NV_OK;
}

// system_mem.c sysmemConstruct().
NvStatus DriverModel::ConstructSystemMemory(AllocRequest& request, Object& object) {
  auto params = Params<rm::NV_MEMORY_ALLOCATION_PARAMS>(request);
  if (params.size == 0 || (params.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0 ||
      rm::NVOS32_ATTR_LOCATION.Get(params.attr) == rm::NVOS32_ATTR_LOCATION_VIDMEM) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (params.size > ~rm::NvU64{0} - kSystemPage) {
    return rm::NV_ERR_NO_MEMORY;
  }
  params.size = (params.size + kSystemPage - 1) / kSystemPage * kSystemPage;
  params.limit = params.size - 1;
  object.block = std::make_shared<Block>(next_block_++, -1, params.size, Charge());
  object.block->user_read_only = rm::NVOS32_ATTR2_PROTECTION_USER.Get(params.attr2) ==
                                 rm::NVOS32_ATTR2_PROTECTION_USER_READ_ONLY;
  object.original = true;
  PutParams(request, params);
  return rm::NV_OK;
}

// osmemdesc.c osCreateMemFromOsDescriptor(). The addresses of a process's pages come through
// NV_ESC_RM_ALLOC_MEMORY and VID_HEAP_CONTROL alone, which pin them first and say page array here.
// A process that says so itself hands the kernel a pointer of its own making; here that is memory
// like any other.
NvStatus DriverModel::ConstructOsDescriptor(AllocRequest& request, Object& object) {
  const auto params = Params<rm::NV_OS_DESC_MEMORY_ALLOCATION_PARAMS>(request);
  if (params.descriptor == 0 || params.limit == 0) {
    return rm::NV_ERR_INVALID_PARAM_STRUCT;
  }
  if (params.descriptorType > kOsFileHandle) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if (params.descriptorType == kVirtualAddress || params.descriptorType == kOsPhysAddr) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if (params.descriptorType == kOsFileHandle || params.limit > ~rm::NvU64{0} - kSystemPage) {
    return rm::NV_ERR_INVALID_ARGUMENT;  // no dma-buf of another driver exists here
  }
  const rm::NvU64 size = (params.limit + kSystemPage) / kSystemPage * kSystemPage;
  object.block = std::make_shared<Block>(next_block_++, -1, size, Charge());
  object.original = true;
  return rm::NV_OK;
}

// phys_mem.c physmemConstruct(): all memory of the GPU, whoever has it. It takes none.
NvStatus DriverModel::ConstructPhysical(AllocRequest& request, Object& object) {
  auto params = Params<NV_PHYSICAL_MEMORY_ALLOCATION_PARAMS>(request);
  params.memSize = Memory(object.gpu).Total();
  object.block = std::make_shared<Block>(next_block_++, object.gpu, params.memSize, Charge());
  object.block->page_size = rm::kPageHuge;
  object.original = true;
  PutParams(request, params);
  return rm::NV_OK;
}

// mem_list.c memlistConstruct(): pages by their numbers, whoever has them. It takes none.
NvStatus DriverModel::ConstructList(AllocRequest& request, Object& object) {
  const auto params = Params<NV_MEMORY_LIST_ALLOCATION_PARAMS>(request);
  const Client* source = params.hClient == 0 ? nullptr : FindClient(params.hClient);
  if (params.hClient == 0 ? params.hParent != 0 : source == nullptr) {
    return params.hClient == 0 ? rm::NV_ERR_INVALID_OBJECT_PARENT
                               : rm::NV_ERR_INVALID_OBJECT_HANDLE;
  }
  const bool of_object = object.cls == rm::NV01_MEMORY_LIST_OBJECT;
  if (of_object != (params.hObject != 0) || params.reserved_0 != 0 ||
      params.pteAdjust >= kSystemPage) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  int gpu = object.cls == rm::NV01_MEMORY_LIST_SYSTEM ? -1 : object.gpu;
  if (of_object) {
    Client* owner = FindClient(source == nullptr ? request.client : params.hClient);
    const Object* of = FindObject(*owner, params.hObject);
    if (of == nullptr || of->block == nullptr) {
      return rm::NV_ERR_OBJECT_NOT_FOUND;
    }
    gpu = of->block->gpu;
  }
  if (params.limit == ~rm::NvU64{0} || (gpu >= 0 && params.limit >= Memory(object.gpu).Total())) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  object.block = std::make_shared<Block>(next_block_++, gpu, params.limit + 1, Charge());
  object.original = true;
  return rm::NV_OK;
}

}  // namespace cgpu::sim
