// Copies calls in: one function per escape whose parameters are more than a flat structure. Every
// byte is read once; sizes come from the tables, never from the tenant alone.
#include <bit>
#include <cerrno>

#include "boundary/call.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Notes the pointer at `at` in `holder` and copies the `size` bytes it leads to. With size 0 the
// driver gets a null pointer. Without `copy_in` the driver begins with zeros.
void ReadNested(TenantMemory& memory, Call& call, std::size_t size, int holder, std::size_t at,
                bool copy_out = true, bool copy_in = true) {
  Pointer pointer;
  pointer.holder = holder;
  pointer.at = at;
  const auto owner = static_cast<std::size_t>(holder);
  pointer.tenant = Load<std::uint64_t>(holder < 0 ? call.image : call.nested[owner].bytes, at);
  if (pointer.tenant != 0 && size != 0) {
    Nested nested;
    nested.address = pointer.tenant;
    nested.copy_out = copy_out;
    nested.bytes.resize(size);
    if (copy_in && !memory.Read(nested.address, nested.bytes.data(), size)) {
      call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
    }
    pointer.target = static_cast<int>(call.nested.size());
    call.nested.push_back(std::move(nested));
  }
  call.pointers.push_back(pointer);
}

void DecodeAlloc(const rm::Abi& abi, TenantMemory& memory, Call& call) {
  // NVOS21 and NVOS64 agree up to pAllocParms; NVOS64 alone has pRightsRequested.
  const auto head = Load<rm::NVOS21_PARAMETERS>(call.image);
  call.client = head.hRoot;
  call.object = head.hObjectParent;
  call.command = head.hClass;
  ReadNested(memory, call, rm::ClassParamSize(abi, head.hClass), -1,
             offsetof(rm::NVOS21_PARAMETERS, pAllocParms));
  if (call.image.size() == sizeof(rm::NVOS64_PARAMETERS)) {
    constexpr std::size_t kAccessMaskSize =
        4;  // RS_ACCESS_MASK, src/common/sdk/nvidia/inc/rs_access.h
    ReadNested(memory, call, kAccessMaskSize, -1, offsetof(rm::NVOS64_PARAMETERS, pRightsRequested),
               /*copy_out=*/false);
  }
}

// Decodes pointers inside control parameters, as the table describes them. Where a row says that
// there are some but does not describe them, the policy refuses the control.
void DecodeEmbedded(const rm::Abi& abi, TenantMemory& memory, Call& call) {
  for (const rm::EmbeddedPointer& pointer : rm::EmbeddedPointers(call.command)) {
    if (abi.branch < pointer.since) {
      continue;
    }
    const Bytes& params = call.nested[0].bytes;
    const auto size = pointer.Bytes(Load<std::uint32_t>(params, pointer.count_offset));
    if (!size) {
      call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
    }
    ReadNested(memory, call, size.value_or(0), 0, pointer.pointer_offset,
               pointer.direction != rm::PointerDirection::kIn,
               pointer.direction != rm::PointerDirection::kOut);
  }
}

void DecodeControlFd(Call& call) {
  const auto at = [&](std::size_t offset) {
    FdArgument argument;
    argument.holder = 0;
    argument.at = offset;
    argument.number = Load<std::int32_t>(call.nested[0].bytes, offset);
    call.fd = argument;
  };
  switch (call.command) {
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
      at(offsetof(rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS, fd));
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
      at(offsetof(rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS, fd));
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO:
      at(offsetof(rm::NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS_V535, fd));
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
      at(offsetof(rm::NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS, fd));
      break;
    case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
      at(offsetof(rm::NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS, fd));
      break;
    default:
      break;
  }
}

void DecodeControl(const rm::Abi& abi, TenantMemory& memory, Call& call) {
  const auto head = Load<rm::NVOS54_PARAMETERS>(call.image);
  call.client = head.hClient;
  call.object = head.hObject;
  call.command = head.cmd;
  // Decide() refuses other sizes with the driver's status, without reading anything.
  const std::size_t size = rm::ControlTakes(abi, head.cmd, head.paramsSize) ? head.paramsSize : 0;
  ReadNested(memory, call, size, -1, offsetof(rm::NVOS54_PARAMETERS, params));
  if (!call.nested.empty() && call.copy_in == rm::NV_OK) {
    DecodeControlFd(call);
    DecodeEmbedded(abi, memory, call);
  }
}

void DecodeVidHeap(Call& call) {
  const auto head = Load<rm::NVOS32_PARAMETERS>(call.image);
  call.client = head.hRoot;
  call.object = head.hObjectParent;
  call.command = head.function;
}

void TakeFdArgument(Call& call, std::size_t at) {
  FdArgument argument;
  argument.at = at;
  argument.number = Load<std::int32_t>(call.image, at);
  call.fd = argument;
}

// Decodes three lists of handles, where a list is asked for.
void DecodeIdleChannels(TenantMemory& memory, Call& call) {
  const auto head = Load<rm::NVOS30_PARAMETERS>(call.image);
  call.client = head.hClient;
  const bool list = rm::NVOS30_FLAGS_CHANNEL.Get(head.flags) == rm::NVOS30_FLAGS_CHANNEL_LIST;
  const std::size_t count = list ? head.numChannels : 0;
  if (count > kMaxParameters / sizeof(std::uint32_t)) {
    call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
  }
  const std::size_t size = call.copy_in == rm::NV_OK ? count * sizeof(std::uint32_t) : 0;
  for (const std::size_t at :
       {offsetof(rm::NVOS30_PARAMETERS, phClients), offsetof(rm::NVOS30_PARAMETERS, phDevices),
        offsetof(rm::NVOS30_PARAMETERS, phChannels)}) {
    ReadNested(memory, call, size, -1, at, /*copy_out=*/false);
  }
}

void DecodeDup(Call& call) {
  const auto dup = Load<rm::NVOS55_PARAMETERS>(call.image);
  call.client = dup.hClient;
  call.object = dup.hParent;
  call.source_client = dup.hClientSrc;
}

// Checks the file as escape.c does: NV_CTL_DEVICE_ONLY and NV_ACTUAL_DEVICE_ONLY. On a GPU's file
// RM_ALLOC makes only events.
bool OnItsFile(const Call& call) {
  if (call.nr == rm::NV_ESC_RM_ALLOC && call.file.kind == FileKind::kCard) {
    switch (Load<rm::NVOS21_PARAMETERS>(call.image).hClass) {
      case rm::NV01_EVENT:
      case rm::NV01_EVENT_OS_EVENT:
      case rm::NV01_EVENT_KERNEL_CALLBACK:
      case rm::NV01_EVENT_KERNEL_CALLBACK_EX:
        return true;
      default:
        return false;
    }
  }
  const rm::EscapeFiles files = rm::FindEscape(static_cast<std::uint8_t>(call.nr))->files;
  return files == rm::EscapeFiles::kBoth ||
         (files == rm::EscapeFiles::kCtl) == (call.file.kind == FileKind::kControl);
}

// In every structure that DecodeBody does not list, the first field is the client.
void DecodeBody(const rm::Abi& abi, TenantMemory& memory, Call& call) {
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC:
      DecodeAlloc(abi, memory, call);
      return;
    case rm::NV_ESC_RM_CONTROL:
      DecodeControl(abi, memory, call);
      return;
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      DecodeVidHeap(call);
      return;
    case rm::NV_ESC_RM_DUP_OBJECT:
      DecodeDup(call);
      return;
    case rm::NV_ESC_RM_FREE: {
      const auto free = Load<rm::NVOS00_PARAMETERS>(call.image);
      call.client = free.hRoot;
      call.object = free.hObjectOld;
      return;
    }
    case rm::NV_ESC_RM_MAP_MEMORY:
      call.client = Load<std::uint32_t>(call.image);
      call.object = Load<rm::NVOS33_PARAMETERS>(call.image).hDevice;
      TakeFdArgument(call, offsetof(rm::nv_ioctl_nvos33_parameters_with_fd, fd));
      return;
    case rm::NV_ESC_REGISTER_FD:
      TakeFdArgument(call, 0);
      return;
    case rm::NV_ESC_RM_GET_EVENT_DATA: {
      ReadNested(memory, call, sizeof(rm::NvUnixEvent), -1, offsetof(rm::NVOS41_PARAMETERS, pEvent),
                 true, false);
      return;
    }
    case rm::NV_ESC_RM_ALLOC_MEMORY: {
      const auto head = Load<rm::NVOS02_PARAMETERS>(call.image);
      call.client = head.hRoot;
      call.object = head.hObjectParent;
      call.command = head.hClass;
      if (head.hClass == rm::NV01_MEMORY_SYSTEM &&
          rm::NVOS02_FLAGS_MAPPING.Get(head.flags) != rm::NVOS02_FLAGS_MAPPING_NO_MAP) {
        TakeFdArgument(call, offsetof(rm::nv_ioctl_nvos02_parameters_with_fd, fd));
      }
      return;
    }
    case rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2: {
      const auto head = Load<rm::NVOS39_PARAMETERS>(call.image);
      call.client = head.hObjectParent;
      call.command = head.hClass;
      return;
    }
    case rm::NV_ESC_RM_IDLE_CHANNELS:
      DecodeIdleChannels(memory, call);
      return;
    case rm::NV_ESC_RM_MAP_MEMORY_DMA:
    case rm::NV_ESC_RM_UNMAP_MEMORY_DMA:
      call.client = Load<std::uint32_t>(call.image);
      call.object = Load<rm::NVOS46_PARAMETERS_V535>(call.image).hDevice;
      return;
    case rm::NV_ESC_RM_BIND_CONTEXT_DMA:
    case rm::NV_ESC_RM_SHARE:
    case rm::NV_ESC_RM_UNMAP_MEMORY:
    case rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
    case rm::NV_ESC_ALLOC_OS_EVENT:
    case rm::NV_ESC_FREE_OS_EVENT:
      call.client = Load<std::uint32_t>(call.image);
      return;
    default:
      return;  // names no object, or Decide() refuses it
  }
}

}  // namespace

void MakeRoom(Call& call) {
  const auto behind = [](Bytes& bytes) {
    const std::size_t size = bytes.size();
    bytes.resize(size + kRoomBehind);
    bytes.resize(size);  // and the memory keeps its place
  };
  behind(call.image);
  for (Nested& nested : call.nested) {
    behind(nested.bytes);
  }
}

void PointInside(Call& call, int local_fd) {
  const auto holder = [&](int index) -> Bytes& {
    return index < 0 ? call.image : call.nested[static_cast<std::size_t>(index)].bytes;
  };
  for (const Pointer& pointer : call.pointers) {
    const void* target = pointer.target < 0
                             ? nullptr
                             : call.nested[static_cast<std::size_t>(pointer.target)].bytes.data();
    Store(holder(pointer.holder), std::bit_cast<std::uint64_t>(target), pointer.at);
  }
  if (call.fd) {
    Store(holder(call.fd->holder), std::int32_t{local_fd}, call.fd->at);
  }
}

void PointBack(Call& call) {
  const auto holder = [&](int index) -> Bytes& {
    return index < 0 ? call.image : call.nested[static_cast<std::size_t>(index)].bytes;
  };
  for (const Pointer& pointer : call.pointers) {
    Store(holder(pointer.holder), pointer.tenant, pointer.at);
  }
  if (call.fd) {
    Store(holder(call.fd->holder), call.fd->number, call.fd->at);
  }
}

bool Call::ChangesState() const {
  if (uvm_request != 0) {
    return UvmChangesState(uvm_request);
  }
  switch (nr) {
    case rm::NV_ESC_RM_ALLOC_MEMORY:
      return command != rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;  // which the caller executes
    case rm::NV_ESC_RM_ALLOC:
    case rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2:
    case rm::NV_ESC_RM_FREE:
    case rm::NV_ESC_RM_DUP_OBJECT:
    case rm::NV_ESC_RM_MAP_MEMORY:
    case rm::NV_ESC_RM_UNMAP_MEMORY:
    case rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
    case rm::NV_ESC_RM_MAP_MEMORY_DMA:
    case rm::NV_ESC_RM_UNMAP_MEMORY_DMA:
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
    case rm::NV_ESC_RM_BIND_CONTEXT_DMA:
    case rm::NV_ESC_RM_GET_EVENT_DATA:
    case rm::NV_ESC_ALLOC_OS_EVENT:
    case rm::NV_ESC_FREE_OS_EVENT:
      return true;
    case rm::NV_ESC_RM_CONTROL:
      switch (command) {
        case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
        case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
        case rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
        case rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
        case rm::GSS_LEGACY_8163_TAKE_ENCODER:
        case rm::GSS_LEGACY_8164_GIVE_ENCODER:
          return true;
        default:
          return false;
      }
    default:
      return false;
  }
}

const Bytes* AllocParameters(const Call& call) {
  const int target = call.pointers[0].target;
  return target < 0 ? nullptr : &call.nested[static_cast<std::size_t>(target)].bytes;
}

bool Call::Releases() const {
  if (uvm_request != 0) {
    return UvmReleases(uvm_request);
  }
  return nr == rm::NV_ESC_RM_FREE || nr == rm::NV_ESC_RM_UNMAP_MEMORY ||
         nr == rm::NV_ESC_RM_UNMAP_MEMORY_DMA ||
         (nr == rm::NV_ESC_RM_VID_HEAP_CONTROL && command == rm::NVOS32_FUNCTION_FREE);
}

int Decode(const rm::Abi& abi, std::uint32_t request, std::uint64_t address, TenantMemory& memory,
           Call& call) {
  call.nr = rm::EscapeNr(request);
  std::uint32_t size = rm::EscapeSize(request);
  call.address = address;
  if (call.nr == rm::NV_ESC_IOCTL_XFER_CMD) {
    if (size != sizeof(rm::nv_ioctl_xfer_t)) {
      return EINVAL;
    }
    rm::nv_ioctl_xfer_t xfer{};
    if (!memory.Read(address, &xfer, sizeof(xfer))) {
      return EFAULT;
    }
    call.wrapped = true;
    call.nr = xfer.cmd;
    size = xfer.size;
    call.address = xfer.ptr;
    if (size > kMaxImage) {
      return EINVAL;
    }
  }
  call.image.resize(size);
  if (size != 0 && !memory.Read(call.address, call.image.data(), size)) {
    return EFAULT;
  }
  if (call.nr > 0xffU || (call.wrapped && call.nr == rm::NV_ESC_IOCTL_XFER_CMD) ||
      !rm::EscapeAcceptsSize(abi, static_cast<std::uint8_t>(call.nr), size) || !OnItsFile(call)) {
    return EINVAL;
  }
  if (call.nr == rm::NV_ESC_WAIT_OPEN_COMPLETE &&
      size != sizeof(rm::nv_ioctl_wait_open_complete_t)) {
    return EINVAL;  // 550 would write its answer beyond a smaller buffer
  }
  DecodeBody(abi, memory, call);
  if (call.copy_in != rm::NV_OK) {
    // The driver reports it in the status, and writes nothing else (param_copy.c
    // rmapiParamsAcquire()).
    for (Nested& nested : call.nested) {
      nested.copy_out = false;
    }
  }
  return 0;
}

}  // namespace cgpu::boundary
