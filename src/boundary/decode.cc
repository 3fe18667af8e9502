// Copies calls in, with the steps of their families (calls/). Every byte is read once; sizes come
// from the tables, never from the tenant alone.
#include <bit>
#include <cerrno>
#include <utility>

#include "boundary/call.h"
#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Checks the file as escape.c does: NV_CTL_DEVICE_ONLY and NV_ACTUAL_DEVICE_ONLY.
bool OnItsFile(const Call& call) {
  const rm::EscapeFiles files = rm::FindEscape(static_cast<std::uint8_t>(call.nr))->files;
  return files == rm::EscapeFiles::kBoth ||
         (files == rm::EscapeFiles::kCtl) == (call.file.kind == FileKind::kControl);
}

std::optional<std::size_t> StatusAt(const Call& call) {
  return call.uvm_request != 0
             ? call.uvm_status
             : rm::StatusOffset(static_cast<rm::NvU8>(call.nr), call.image.size());
}

}  // namespace

void NoteNested(Call& call, std::size_t size, int holder, std::size_t at, bool copy_out,
                bool copy_in) {
  Pointer pointer;
  pointer.holder = holder;
  pointer.at = at;
  const auto owner = static_cast<std::size_t>(holder);
  pointer.tenant = Load<std::uint64_t>(holder < 0 ? call.image : call.nested[owner].bytes, at);
  if (pointer.tenant != 0 && size != 0) {
    Nested nested;
    nested.address = pointer.tenant;
    nested.due = size;
    nested.copy_in = copy_in;
    nested.copy_out = copy_out;
    pointer.target = static_cast<int>(call.nested.size());
    call.nested.push_back(std::move(nested));
  }
  call.pointers.push_back(pointer);
}

void ReadNested(TenantMemory& memory, Call& call, std::size_t size, std::size_t at, bool copy_out) {
  NoteNested(call, size, /*holder=*/-1, at, copy_out, /*copy_in=*/true);
  CopyInRest(memory, call);
}

std::size_t BytesDue(const Call& call) {
  std::size_t due = 0;
  for (const Nested& nested : call.nested) {
    due += nested.due;
  }
  return due;
}

void CopyInRest(TenantMemory& memory, Call& call) {
  for (Nested& nested : call.nested) {
    const std::size_t size = std::exchange(nested.due, 0);
    if (size != 0 && call.copy_in == rm::NV_OK) {
      nested.bytes.resize(size);
      if (nested.copy_in && !memory.Read(nested.address, nested.bytes.data(), size)) {
        call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
      }
    }
  }
  if (call.copy_in != rm::NV_OK) {
    // The driver reports it in the status, and writes nothing else (param_copy.c
    // rmapiParamsAcquire()).
    for (Nested& nested : call.nested) {
      nested.copy_out = false;
    }
  }
}

void TakeFdArgument(Call& call, std::size_t at, int holder) {
  FdArgument argument;
  argument.holder = holder;
  argument.at = at;
  const auto owner = static_cast<std::size_t>(holder);
  argument.number = Load<std::int32_t>(holder < 0 ? call.image : call.nested[owner].bytes, at);
  call.fd = argument;
}

void DecodeClient(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  call.client = Load<std::uint32_t>(call.image);
}

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

std::optional<std::uint32_t> StatusOf(const Call& call) {
  const auto at = StatusAt(call);
  return at ? std::optional(Load<std::uint32_t>(call.image, *at)) : std::nullopt;
}

void SetStatus(Call& call, std::uint32_t status) {
  if (const auto at = StatusAt(call)) {
    Store(call.image, status, *at);
  }
}

bool Call::ChangesState() const {
  if (uvm_request != 0) {
    return UvmChangesState(uvm_request);
  }
  const Handler* handler = FindHandler(nr);
  return handler != nullptr && handler->changes_state != nullptr && handler->changes_state(*this);
}

bool Call::Releases() const {
  if (uvm_request != 0) {
    return UvmReleases(uvm_request);
  }
  const Handler* handler = FindHandler(nr);
  return handler != nullptr && handler->releases != nullptr && handler->releases(*this);
}

CallKind Call::Kind() const {
  if (uvm_request != 0) {
    return CallKind::kUvm;
  }
  const Handler* handler = FindHandler(nr);
  const CallKind kind = handler == nullptr ? CallKind::kOther : handler->kind;
  return kind == CallKind::kAlloc && Releases() ? CallKind::kFree : kind;
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
      !rm::EscapeAcceptsSize(abi, static_cast<std::uint8_t>(call.nr), size)) {
    return EINVAL;
  }
  const Handler* handler = FindHandler(call.nr);
  const bool accepted =
      handler != nullptr && handler->accepts != nullptr ? handler->accepts(call) : OnItsFile(call);
  if (!accepted) {
    return EINVAL;
  }
  if (handler != nullptr && handler->decode != nullptr) {
    handler->decode(abi, memory, call);
  }
  return 0;
}

}  // namespace cgpu::boundary
