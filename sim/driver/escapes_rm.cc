// RM_CONTROL and VID_HEAP_CONTROL.
#include <cstring>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/nv_classes.h"
#include "sim/driver/bytes.h"
#include "sim/driver/control.h"
#include "sim/driver/escapes.h"

namespace cgpu::sim {
namespace {

// From src/common/sdk/nvidia/inc/nvos.h:
constexpr rm::NvU32 kFlagIrqlRaised = 1;            // NVOS54_FLAGS_IRQL_RAISED
constexpr rm::NvU32 kFlagLockBypass = 2;            // NVOS54_FLAGS_LOCK_BYPASS
constexpr rm::NvU32 kFreeMemoryHandleProvided = 1;  // NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED
constexpr rm::NvU32 kAllocPartitionStride = 256;

// Category and index of a command, in which 0 means "nothing" for every class.
bool IsNullCommand(rm::NvU32 cmd) {
  return (cmd & 0xFFFFU) == 0;
}

}  // namespace

int Escapes::Control() {
  const auto api = Load<rm::NVOS54_PARAMETERS>(call_.bytes);
  const NvStatus status = RunControl(api);
  call_.params.write_back = status == rm::NV_OK;
  call_.embedded.write_back = status == rm::NV_OK;
  PutStatus(call_, status);
  return 0;
}

// control.c _rmapiRmControl(), then rs_server.c serverControl(), in their order of checks.
NvStatus Escapes::RunControl(const rm::NVOS54_PARAMETERS& api) {
  if (IsNullCommand(api.cmd)) {
    return rm::NV_OK;
  }
  if ((api.flags & (kFlagIrqlRaised | kFlagLockBypass)) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  Client* client = nullptr;
  DriverModel& model = driver_.model_;
  if (model.FindClient(api.hClient) == nullptr) {
    return rm::NV_ERR_INVALID_CLIENT;
  }
  if (call_.copy_in != rm::NV_OK) {
    return call_.copy_in;
  }
  const NvStatus status =
      model.UseClient(call_.file, api.hClient, rm::NV_ERR_INVALID_CLIENT, &client);
  if (status != rm::NV_OK) {
    return status;
  }
  Object* object = DriverModel::FindObject(*client, api.hObject);
  if (object == nullptr) {
    return rm::NV_ERR_OBJECT_NOT_FOUND;
  }
  const ControlEntry* entry = FindControlEntry(api.cmd);
  if (entry == nullptr || entry->target != object->kind) {
    return rm::NV_ERR_NOT_SUPPORTED;
  }
  if ((entry->privilege == Privilege::kAdmin && !caller_.IsAdmin()) ||
      (entry->privilege == Privilege::kNice && !caller_.IsNice())) {
    return rm::NV_ERR_INSUFFICIENT_PERMISSIONS;
  }
  ControlCall control{model,   driver_.version_,   call_.file,          *client, *object, caller_,
                      api.cmd, call_.params.bytes, call_.embedded.bytes};
  return entry->handler(control);
}

// rmapi_deprecated_vidheapctrl.c RmDeprecatedVidHeapControl().
int Escapes::VidHeapControl() {
  auto api = Load<rm::NVOS32_PARAMETERS>(call_.bytes);
  NvStatus status = rm::NV_ERR_INVALID_ARGUMENT;
  if (api.ivcHeapNumber > 1) {
    status = rm::NV_ERR_NOT_SUPPORTED;
  } else {
    switch (api.function) {
      case rm::NVOS32_FUNCTION_ALLOC_SIZE:
        status = VidHeapAlloc(api);
        break;
      case rm::NVOS32_FUNCTION_FREE:
        if ((api.data.Free.flags & kFreeMemoryHandleProvided) != 0) {
          status = driver_.model_.Free(call_.file, api.hRoot, api.data.Free.hMemory);
        }
        break;
      case rm::NVOS32_FUNCTION_INFO:
        status = VidHeapInfo(api);
        break;
      case rm::NVOS32_FUNCTION_DUMP:
      case rm::NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
      case rm::NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
      case rm::NVOS32_FUNCTION_REACQUIRE_COMPR:
      case rm::NVOS32_FUNCTION_RELEASE_COMPR:
      case rm::NVOS32_FUNCTION_GET_MEM_ALIGNMENT:
      case rm::NVOS32_FUNCTION_HW_ALLOC:
      case rm::NVOS32_FUNCTION_HW_FREE:
      case rm::NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR:
        status = rm::NV_ERR_NOT_SUPPORTED;
        break;
      default:
        break;
    }
  }
  Store(std::span(call_.bytes), api);
  PutStatus(call_, status);
  return 0;
}

// _nvos32FunctionAllocSize() and _rmVidHeapControlAllocCommon().
NvStatus Escapes::VidHeapAlloc(rm::NVOS32_PARAMETERS& api) {
  rm::NVOS32_ALLOC_SIZE& in = api.data.AllocSize;
  rm::NV_MEMORY_ALLOCATION_PARAMS params{};
  if ((in.flags & rm::NVOS32_ALLOC_FLAGS_USE_BEGIN_END) != 0) {
    params.rangeLo = in.rangeBegin;
    params.rangeHi = in.rangeEnd;
  }
  params.owner = in.owner;
  params.type = in.type;
  params.flags = in.flags;
  params.height = in.height;
  params.width = in.width;
  params.size = in.size;
  params.alignment = in.alignment;
  params.numaNode = in.numaNode;
  params.attr = in.attr;
  params.attr2 = in.attr2;
  params.format = in.format;
  params.hVASpace = api.hVASpace;
  in.partitionStride = kAllocPartitionStride;
  if ((in.flags & rm::NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED) == 0) {
    in.hMemory = 0;
  }
  AllocRequest request;
  request.client = api.hRoot;
  request.parent = api.hObjectParent;
  request.handle = in.hMemory;
  if ((in.flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0) {
    request.cls = rm::NV50_MEMORY_VIRTUAL;
  } else if (rm::NVOS32_ATTR_LOCATION.Get(in.attr) == rm::NVOS32_ATTR_LOCATION_VIDMEM) {
    request.cls = rm::NV01_MEMORY_LOCAL_USER;
  } else {
    request.cls = rm::NV01_MEMORY_SYSTEM;
  }
  request.params = std::as_writable_bytes(std::span(&params, 1));
  const NvStatus status = driver_.model_.Alloc(call_.file, ViewForAlloc(request.cls), request);
  api.total = 0;
  api.free = 0;
  in.hMemory = request.handle;
  in.size = params.size;
  in.offset = params.offset;
  in.attr = params.attr;
  in.attr2 = params.attr2;
  in.format = params.format;
  in.limit = params.limit;
  in.address = params.address;
  in.comprCovg = params.comprCovg;
  in.zcullCovg = params.zcullCovg;
  in.ctagOffset = params.ctagOffset;
  return status;
}

// _nvos32FunctionInfo(): FB info of the device's (first) subdevice.
NvStatus Escapes::VidHeapInfo(rm::NVOS32_PARAMETERS& api) {
  Client* client = nullptr;
  const NvStatus status =
      driver_.model_.UseClient(call_.file, api.hRoot, rm::NV_ERR_INVALID_OBJECT_HANDLE, &client);
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
  const CardMemory& memory = driver_.model_.Memory(object->card);
  api.total = memory.Total();
  api.free = memory.Free();
  api.data.Info.base = 0;
  api.data.Info.size = memory.Free();
  api.data.Info.offset = memory.Used();
  return rm::NV_OK;
}

}  // namespace cgpu::sim
