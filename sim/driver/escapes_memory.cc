// The older calls that make memory, contexts and mappings, and the export to dma-buf.
#include <array>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "sim/driver/bytes.h"
#include "sim/driver/escapes.h"

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/nvos.h, NVOS02_FLAGS_*:
constexpr rm::NvU32 kLocationMask = 0xF00;  // 0: PCI
constexpr unsigned kMappingShift = 30;
constexpr rm::NvU32 kMappingNoMap = 1;
constexpr rm::NvU32 kAllocMask = 0x30000;
constexpr rm::NvU32 kAllocNone = 0x10000;
constexpr rm::NvU32 kCoherencyCached = 1;
constexpr rm::NvU32 kCoherencyWriteBack = 5;

constexpr rm::NvU32 kOsPageArray = 1;          // NVOS32_DESCRIPTOR_TYPE_OS_PAGE_ARRAY
constexpr rm::NvU32 kMaxDmaBufObjects = 4096;  // the driver has no bound of its own
constexpr rm::NvU32 kIdleSingle = 1;           // NVOS30_FLAGS_CHANNEL_SINGLE, bits 7:4

bool CoherencyFits(rm::NvU32 flags) {
  const rm::NvU32 coherency = flags >> 12 & 0xFU;
  return coherency == 0 || coherency == kCoherencyCached || coherency == kCoherencyWriteBack;
}

template <class T>
std::span<std::byte> AsBytes(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

// RM_ALLOC on a caller's behalf, by one of the older calls.
NvStatus Escapes::AllocFor(rm::NvHandle client, rm::NvHandle parent, rm::NvU32 cls,
                           std::span<std::byte> params, rm::NvHandle* handle) {
  AllocRequest request;
  request.client = client;
  request.parent = parent;
  request.handle = *handle;
  request.cls = cls;
  request.params = params;
  const NvStatus status = model_.Alloc(call_.file, ViewForAlloc(cls), request);
  *handle = request.handle;
  return status;
}

// escape.c RmCreateOsDescriptor(): pins the caller's own pages.
NvStatus Escapes::PinPages(rm::NvHandle client, rm::NvHandle parent, rm::NvP64 address,
                           rm::NvU64 limit, rm::NvHandle* handle) {
  constexpr rm::NvP64 kPageMask = 0xFFF;
  if ((address & kPageMask) != 0) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if (limit == ~rm::NvU64{0}) {
    return rm::NV_ERR_INVALID_LIMIT;
  }
  if (call_.copy_in != rm::NV_OK) {
    return call_.copy_in;  // the pages are not there
  }
  rm::NV_OS_DESC_MEMORY_ALLOCATION_PARAMS params{};
  params.descriptor = address;
  params.limit = limit;
  params.descriptorType = kOsPageArray;
  const NvStatus status =
      AllocFor(client, parent, rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, AsBytes(params), handle);
  if (status == rm::NV_OK) {
    DriverModel::FindObject(*model_.FindClient(client), *handle)->block->pages = call_.pages;
  }
  return status;
}

// escape.c and rmapi_deprecated_allocmemory.c.
int Escapes::AllocMemory() {
  auto api = Load<rm::nv_ioctl_nvos02_parameters_with_fd>(call_.bytes);
  const NvStatus status = AllocLegacyMemory(api.params);
  Store(std::span(call_.bytes), api);
  PutStatus(call_, status);
  return 0;
}

NvStatus Escapes::AllocLegacyMemory(rm::NVOS02_PARAMETERS& api) {
  switch (api.hClass) {
    case rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
      if ((api.flags & kLocationMask) != 0 || api.flags >> kMappingShift != kMappingNoMap ||
          !CoherencyFits(api.flags)) {
        return rm::NV_ERR_INVALID_FLAGS;
      }
      return PinPages(api.hRoot, api.hObjectParent, api.pMemory, api.limit, &api.hObjectNew);
    case rm::NV01_MEMORY_SYSTEM: {
      if ((api.flags & kLocationMask) != 0 || (api.flags & kAllocMask) == kAllocNone) {
        return rm::NV_ERR_INVALID_FLAGS;
      }
      rm::NV_MEMORY_ALLOCATION_PARAMS params{};
      params.size = api.limit + 1;
      params.attr = rm::NVOS32_ATTR_LOCATION.Set(0, rm::NVOS32_ATTR_LOCATION_PCI);
      return AllocFor(api.hRoot, api.hObjectParent, api.hClass, AsBytes(params), &api.hObjectNew);
    }
    case rm::NV01_MEMORY_VIRTUAL:  // NV01_MEMORY_SYSTEM_DYNAMIC
      return AllocDynamic(api);
    case rm::NV01_MEMORY_LOCAL_USER:
      return AllocLocalUser(api);
    case rm::NV01_MEMORY_LOCAL_PRIVILEGED: {
      if ((api.flags & kAllocMask) != kAllocNone) {
        return rm::NV_ERR_INVALID_FLAGS;
      }
      return AllocFor(api.hRoot, api.hObjectParent, api.hClass, {}, &api.hObjectNew);
    }
    case rm::NV01_MEMORY_LIST_SYSTEM:
    case rm::NV01_MEMORY_LIST_FBMEM:
    case rm::NV01_MEMORY_LIST_OBJECT:
      // Lists in their older form are not simulated; RM_ALLOC of the classes is.
      return caller_.IsAdmin() ? rm::NV_ERR_NOT_SUPPORTED : rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
    default:
      return rm::NV_ERR_INVALID_CLASS;
  }
}

NvStatus Escapes::AllocDynamic(rm::NVOS02_PARAMETERS& api) {
  rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
  params.hVASpace = kNoAddressSpace;
  return AllocFor(api.hRoot, api.hObjectParent, rm::NV01_MEMORY_VIRTUAL, AsBytes(params),
                  &api.hObjectNew);
}

// _rmAllocMemoryLocalUser(): all of the GPU for an administrator; for others an object without
// memory, and the size of the heap.
NvStatus Escapes::AllocLocalUser(rm::NVOS02_PARAMETERS& api) {
  std::array<rm::NvU64, 3> physical{};  // NV_PHYSICAL_MEMORY_ALLOCATION_PARAMS, memSize first
  NvStatus status = AllocFor(api.hRoot, api.hObjectParent, rm::NV01_MEMORY_LOCAL_PHYSICAL,
                             AsBytes(physical), &api.hObjectNew);
  if (status == rm::NV_OK) {
    api.limit = physical[0] - 1;
  } else if (status == rm::NV_ERR_INSUFFICIENT_PERMISSIONS) {
    status = AllocDynamic(api);
    if (status == rm::NV_OK) {
      Client* client = model_.FindClient(api.hRoot);
      const Object* object = DriverModel::FindObject(*client, api.hObjectNew);
      api.limit = model_.Memory(object->gpu).Total() - 1;
    }
  }
  return status;
}

namespace {

DmaRequest MakeDmaRequest(const rm::NVOS46_PARAMETERS_V535& api) {
  DmaRequest request;
  request.client = api.hClient;
  request.device = api.hDevice;
  request.range = api.hDma;
  request.memory = api.hMemory;
  request.offset = api.offset;
  request.length = api.length;
  request.flags = api.flags;
  return request;
}

}  // namespace

int Escapes::MapDma() {
  // The two forms begin alike and differ in where the address is.
  DmaRequest request = MakeDmaRequest(Load<rm::NVOS46_PARAMETERS_V535>(call_.bytes));
  const bool longer = call_.bytes.size() == sizeof(rm::NVOS46_PARAMETERS_V580);
  const auto place = std::span(call_.bytes)
                         .subspan(longer ? offsetof(rm::NVOS46_PARAMETERS_V580, dmaOffset)
                                         : offsetof(rm::NVOS46_PARAMETERS_V535, dmaOffset));
  request.address = Load<rm::NvU64>(place);
  const NvStatus status = model_.MapDma(call_.file, request);
  if (status == rm::NV_OK) {
    Store(place, request.address);
  }
  PutStatus(call_, status);
  return 0;
}

int Escapes::UnmapDma() {
  const auto api = Load<rm::NVOS47_PARAMETERS_V550>(call_.bytes);
  DmaRequest request;
  request.client = api.hClient;
  request.device = api.hDevice;
  request.range = api.hDma;
  request.address = api.dmaOffset;
  if (call_.bytes.size() == sizeof(api)) {
    request.length = api.size;  // 535 has no size in it
  }
  PutStatus(call_, model_.UnmapDma(call_.file, request));
  return 0;
}

// rmapi_deprecated_misc.c RmDeprecatedAllocContextDma(): the memory's parent becomes the parent.
int Escapes::AllocContextDma() {
  auto api = Load<rm::NVOS39_PARAMETERS>(call_.bytes);
  const rm::NvHandle root = api.hObjectParent;
  Client* client = nullptr;
  NvStatus status = model_.UseClient(call_.file, root, rm::NV_ERR_INVALID_CLIENT, &client);
  const Object* memory =
      status == rm::NV_OK ? DriverModel::FindObject(*client, api.hMemory) : nullptr;
  if (status == rm::NV_OK && memory == nullptr) {
    status = rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (status == rm::NV_OK && memory->cls == rm::NV01_MEMORY_VIRTUAL) {
    rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS params{};
    params.offset = api.offset;
    params.limit = api.limit;
    status =
        AllocFor(root, memory->parent, rm::NV01_MEMORY_VIRTUAL, AsBytes(params), &api.hObjectNew);
  } else if (status == rm::NV_OK) {
    rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS params{};
    params.hSubDevice = api.hSubDevice;
    params.flags = api.flags;
    params.hMemory = api.hMemory;
    params.offset = api.offset;
    params.limit = api.limit;
    status = AllocFor(root, memory->parent, api.hClass, AsBytes(params), &api.hObjectNew);
  }
  Store(std::span(call_.bytes), api);
  PutStatus(call_, status);
  return 0;
}

// RmDeprecatedBindContextDma().
int Escapes::BindContextDma() {
  const auto api = Load<rm::NVOS49_PARAMETERS>(call_.bytes);
  Client* client = nullptr;
  NvStatus status = model_.UseClient(call_.file, api.hClient, rm::NV_ERR_INVALID_CLIENT, &client);
  if (status == rm::NV_OK) {
    const Object* context = DriverModel::FindObject(*client, api.hCtxDma);
    const Object* channel = DriverModel::FindObject(*client, api.hChannel);
    if (context == nullptr) {
      status = rm::NV_ERR_OBJECT_NOT_FOUND;
    } else if (context->cls != rm::NV01_MEMORY_VIRTUAL &&
               context->kind != ObjectKind::kContextDma) {
      status = rm::NV_ERR_NOT_SUPPORTED;
    } else if (context->kind == ObjectKind::kContextDma &&
               (channel == nullptr || channel->kind != ObjectKind::kChannel)) {
      status = rm::NV_ERR_INVALID_CHANNEL;
    }
  }
  PutStatus(call_, status);
  return 0;
}

// kernel_idle_channels.c RmIdleChannels(), which RmDeprecatedIdleChannels() reaches by a control on
// the client: a client of another file is refused. The wait for idle is not simulated.
int Escapes::IdleChannels() {
  const auto api = Load<rm::NVOS30_PARAMETERS>(call_.bytes);
  Client* client = nullptr;
  NvStatus status = model_.UseClient(call_.file, api.hClient, rm::NV_ERR_INVALID_CLIENT, &client);
  const rm::NvU32 form = api.flags >> 4 & 0xFU;
  if (status == rm::NV_OK && form > kIdleSingle) {
    status = rm::NV_ERR_INVALID_FLAGS;
  }
  if (status == rm::NV_OK) {
    status = call_.copy_in;
  }
  if (status == rm::NV_OK && form == kIdleSingle) {
    const Object* device = DriverModel::FindObject(*client, api.hDevice);
    if (device == nullptr || device->gpu < 0) {
      status = rm::NV_ERR_OBJECT_NOT_FOUND;
    }
  }
  // A list: clients first, as Driver::ReadSecondLevel() put them.
  for (std::size_t at = 0; status == rm::NV_OK && form == 0 && at < call_.params.bytes.size();
       at += sizeof(rm::NvHandle)) {
    if (Load<rm::NvHandle>(std::span(call_.params.bytes).subspan(at)) != api.hClient) {
      status = rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
    }
  }
  if (status == rm::NV_OK) {
    model_.NoteIdle(api.timeout);
  }
  PutStatus(call_, status);
  return 0;
}

// nv-dmabuf.c nv_dma_buf_export(). A duplicate in a client of the driver's own is made from
// whatever client the caller names. The descriptor: a program cannot be given a new one from
// outside, so it is one of its own files of /dev/nvidiactl on which nothing has been done yet.
int Escapes::ExportDmaBuf() {
  struct Head {
    rm::NvS32 fd;
    rm::NvHandle hClient;
    rm::NvU32 totalObjects;
    rm::NvU32 numObjects;
    rm::NvU32 index;
    rm::NvU64 totalSize;
  };
  constexpr std::size_t kMaxHandles = 128;
  constexpr std::size_t kShortForm = 2600;  // 570 put two bytes before the handles
  auto head = Load<Head>(call_.bytes);
  const auto handles = Load<std::array<rm::NvHandle, kMaxHandles>>(
      std::span(call_.bytes).subspan(sizeof(Head) + (call_.bytes.size() == kShortForm ? 0 : 4)));
  NvStatus status = rm::NV_ERR_INVALID_ARGUMENT;
  if (head.totalSize != 0 && head.numObjects != 0 && head.totalObjects != 0 &&
      head.numObjects <= kMaxHandles && head.numObjects <= head.totalObjects && head.fd >= -1 &&
      head.totalObjects <= kMaxDmaBufObjects && head.index <= head.totalObjects - head.numObjects) {
    FileId target = 0;
    if (head.fd == -1) {
      for (const auto& [fd, file] : caller_.FilesByFd()) {
        if (model_.IsUnused(file)) {
          head.fd = fd;
          target = file;
          break;
        }
      }
    } else {
      target = caller_.ResolveFd(head.fd);
    }
    const int gpu = GpuOfMinor(model_.FindFile(call_.file)->minor);
    status = target == 0
                 ? rm::NV_ERR_OPERATING_SYSTEM
                 : model_.ExportDmaBuf(head.hClient, gpu, target, head.totalObjects, head.index,
                                       std::span(handles).first(head.numObjects));
  }
  if (status == rm::NV_OK) {
    Store(std::span(call_.bytes), head.fd);
  }
  PutStatus(call_, status);
  return 0;
}

int Escapes::GpuOfMinor(unsigned minor) const {
  for (const Gpu& gpu : model_.Gpus()) {
    if (gpu.minor == minor) {
      return static_cast<int>(gpu.index);
    }
  }
  return -1;
}

}  // namespace cgpu::sim
