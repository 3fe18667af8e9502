// VID_HEAP_CONTROL. rmapi_deprecated_vidheapctrl.c of the driver.
#include <cstdint>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "sim/driver/bytes.h"
#include "sim/driver/escapes.h"

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/nvos.h:
constexpr rm::NvU32 kMemoryHandleProvided = 1;  // NVOS32_FREE_FLAGS_, NVOS32_RELEASE_COMPR_FLAGS_
constexpr rm::NvU32 kAllocPartitionStride = 256;

struct AllocSizeRange {  // NVOS32_FUNCTION_ALLOC_SIZE_RANGE
  rm::NvU32 owner;
  rm::NvHandle hMemory;
  rm::NvU32 type;
  rm::NvU32 flags;
  rm::NvU32 attr;
  rm::NvU32 format;
  rm::NvU32 comprCovg;
  rm::NvU32 zcullCovg;
  rm::NvU32 partitionStride;
  rm::NvU64 size;
  rm::NvU64 alignment;
  rm::NvU64 offset;
  rm::NvU64 limit;
  rm::NvU64 rangeBegin;
  rm::NvU64 rangeEnd;
  rm::NvP64 address;
  rm::NvU32 attr2;
  rm::NvU32 ctagOffset;
  rm::NvS32 numaNode;
};

struct AllocTiledPitchHeight {  // NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT
  rm::NvU32 owner;
  rm::NvHandle hMemory;
  rm::NvU32 type;
  rm::NvU32 flags;
  rm::NvU32 height;
  rm::NvS32 pitch;
  rm::NvU32 attr;
  rm::NvU32 width;
  rm::NvU32 format;
  rm::NvU32 comprCovg;
  rm::NvU32 zcullCovg;
  rm::NvU32 partitionStride;
  rm::NvU64 size;
  rm::NvU64 alignment;
  rm::NvU64 offset;
  rm::NvU64 limit;
  rm::NvP64 address;
  rm::NvU64 rangeBegin;
  rm::NvU64 rangeEnd;
  rm::NvU32 attr2;
  rm::NvU32 ctagOffset;
  rm::NvS32 numaNode;
};

struct AllocOsDesc {  // NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR
  rm::NvHandle hMemory;
  rm::NvU32 type;
  rm::NvU32 flags;
  rm::NvU32 attr;
  rm::NvU32 attr2;
  rm::NvP64 descriptor;
  rm::NvU64 limit;
  rm::NvU32 descriptorType;
};

template <class T>
rm::NV_MEMORY_ALLOCATION_PARAMS ParamsOf(const T& in) {
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  params.owner = in.owner;
  params.type = in.type;
  params.flags = in.flags;
  params.size = in.size;
  params.alignment = in.alignment;
  params.numaNode = in.numaNode;
  params.attr = in.attr;
  params.attr2 = in.attr2;
  params.format = in.format;
  return params;
}

template <class T>
void PutResult(const rm::NV_MEMORY_ALLOCATION_PARAMS& params, rm::NvHandle memory, T& out) {
  out.hMemory = memory;
  out.partitionStride = kAllocPartitionStride;
  out.size = params.size;
  out.offset = params.offset;
  out.attr = params.attr;
  out.attr2 = params.attr2;
  out.format = params.format;
  out.limit = params.limit;
  out.address = params.address;
  out.comprCovg = params.comprCovg;
  out.zcullCovg = params.zcullCovg;
  out.ctagOffset = params.ctagOffset;
}

}  // namespace

// RmDeprecatedVidHeapControl().
int Escapes::VidHeapControl() {
  auto api = Load<rm::NVOS32_PARAMETERS>(call_.bytes);
  const NvStatus status = api.ivcHeapNumber > 1 ? rm::NV_ERR_NOT_SUPPORTED : RunVidHeapControl(api);
  Store(std::span(call_.bytes), api);
  PutStatus(call_, status);
  return 0;
}

NvStatus Escapes::RunVidHeapControl(rm::NVOS32_PARAMETERS& api) {
  const std::span<std::byte> data = std::as_writable_bytes(std::span(api.data.raw));
  switch (api.function) {
    case rm::NVOS32_FUNCTION_ALLOC_SIZE:
      return VidHeapAlloc(api);
    case rm::NVOS32_FUNCTION_ALLOC_SIZE_RANGE: {
      auto in = Load<AllocSizeRange>(data);
      rm::NV_MEMORY_ALLOCATION_PARAMS params = ParamsOf(in);
      params.rangeLo = in.rangeBegin;
      params.rangeHi = in.rangeEnd;
      const NvStatus status = VidHeapAllocCommon(api, params, &in.hMemory);
      PutResult(params, in.hMemory, in);
      Store(data, in);
      return status;
    }
    case rm::NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT: {
      auto in = Load<AllocTiledPitchHeight>(data);
      in.size = rm::NvU64{in.height} * static_cast<rm::NvU64>(std::int64_t{in.pitch});
      rm::NV_MEMORY_ALLOCATION_PARAMS params = ParamsOf(in);
      params.height = in.height;
      params.width = in.width;
      const NvStatus status = VidHeapAllocCommon(api, params, &in.hMemory);
      PutResult(params, in.hMemory, in);
      Store(data, in);
      return status;
    }
    case rm::NVOS32_FUNCTION_FREE:
      return (api.data.Free.flags & kMemoryHandleProvided) == 0
                 ? rm::NV_ERR_INVALID_ARGUMENT
                 : model_.Free(call_.file, api.hRoot, api.data.Free.hMemory);
    case rm::NVOS32_FUNCTION_HW_FREE:
      return model_.Free(call_.file, api.hRoot, Load<rm::NvHandle>(data));
    case rm::NVOS32_FUNCTION_INFO:
      return VidHeapInfo(api);
    case rm::NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR: {
      auto in = Load<AllocOsDesc>(data);
      if ((in.flags & rm::NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED) == 0) {
        in.hMemory = 0;
      }
      const NvStatus status =
          PinPages(api.hRoot, api.hObjectParent, in.descriptor, in.limit, &in.hMemory);
      Store(data, in);
      return status;
    }
    case rm::NVOS32_FUNCTION_RELEASE_COMPR:
    case rm::NVOS32_FUNCTION_REACQUIRE_COMPR:
    case rm::NVOS32_FUNCTION_DUMP:
    case rm::NVOS32_FUNCTION_GET_MEM_ALIGNMENT:  // not simulated; the driver answers it
    case rm::NVOS32_FUNCTION_HW_ALLOC:           // the same
      return rm::NV_ERR_NOT_SUPPORTED;
    default:
      return rm::NV_ERR_INVALID_ARGUMENT;
  }
}

// _rmVidHeapControlAllocCommon().
NvStatus Escapes::VidHeapAllocCommon(rm::NVOS32_PARAMETERS& api,
                                     rm::NV_MEMORY_ALLOCATION_PARAMS& params,
                                     rm::NvHandle* handle) {
  params.hVASpace = api.hVASpace;
  if ((params.flags & rm::NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED) == 0) {
    *handle = 0;
  }
  rm::NvU32 cls = rm::NV01_MEMORY_SYSTEM;
  if ((params.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0) {
    cls = rm::NV50_MEMORY_VIRTUAL;
  } else if (rm::NVOS32_ATTR_LOCATION.Get(params.attr) == rm::NVOS32_ATTR_LOCATION_VIDMEM) {
    cls = rm::NV01_MEMORY_LOCAL_USER;
  }
  api.total = 0;
  api.free = 0;
  return AllocFor(api.hRoot, api.hObjectParent, cls, std::as_writable_bytes(std::span(&params, 1)),
                  handle);
}

// _nvos32FunctionAllocSize().
NvStatus Escapes::VidHeapAlloc(rm::NVOS32_PARAMETERS& api) {
  rm::NVOS32_ALLOC_SIZE& in = api.data.AllocSize;
  rm::NV_MEMORY_ALLOCATION_PARAMS params = ParamsOf(in);
  if ((in.flags & rm::NVOS32_ALLOC_FLAGS_USE_BEGIN_END) != 0) {
    params.rangeLo = in.rangeBegin;
    params.rangeHi = in.rangeEnd;
  }
  params.height = in.height;
  params.width = in.width;
  rm::NvHandle memory = in.hMemory;
  const NvStatus status = VidHeapAllocCommon(api, params, &memory);
  PutResult(params, memory, in);
  return status;
}

// _nvos32FunctionInfo(): FB info of the device's (first) subdevice.
NvStatus Escapes::VidHeapInfo(rm::NVOS32_PARAMETERS& api) {
  Client* client = nullptr;
  const NvStatus status =
      model_.UseClient(call_.file, api.hRoot, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  const Object* object = DriverModel::FindObject(*client, api.hObjectParent);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  if (object->kind != ObjectKind::kDevice && object->kind != ObjectKind::kSubdevice) {
    return rm::NV_ERR_INVALID_OBJECT_PARENT;
  }
  const GpuMemory& memory = model_.Memory(object->gpu);
  api.total = memory.Total();
  api.free = memory.Free();
  api.data.Info.base = 0;
  api.data.Info.size = memory.Free();
  api.data.Info.offset = memory.Used();
  return rm::NV_OK;
}

}  // namespace cgpu::sim
