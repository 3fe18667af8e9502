#include "sim/driver/driver.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>

#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/escape_table.h"
#include "rm/nv_classes.h"
#include "sim/driver/bytes.h"
#include "sim/driver/control.h"
#include "sim/driver/escapes.h"

namespace cgpu::sim {
namespace {

// RMAPI_PARAM_COPY_MAX_PARAMS_SIZE in src/nvidia/inc/kernel/rmapi/param_copy.h.
constexpr rm::NvU32 kMaxParams = 1U << 20;

bool ReadBytes(Caller& caller, rm::NvP64 address, std::size_t size, std::vector<std::byte>* bytes) {
  bytes->resize(size);
  return size == 0 || caller.Read(address, *bytes);
}

std::string Hex(rm::NvU32 value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%x", value);
  return text;
}

}  // namespace

Driver::Driver(std::vector<Gpu> gpus, rm::DriverVersion version, const rm::Abi& abi)
    : version_(version), abi_(abi), model_(std::move(gpus), abi), gpus_(model_.Gpus()) {}

FileId Driver::Open(FileKind kind, unsigned minor, std::optional<Identity> opener) {
  const MutexLock lock(mutex_);
  return model_.Open(kind, minor, opener);
}

void Driver::Close(FileId file) {
  const MutexLock lock(mutex_);
  uvm_.Close(file);
  model_.Close(file);
  TellGpu();
}

void Driver::SetEngines(GpuPort* engines) {
  const MutexLock lock(mutex_);
  model_.SetEngines(engines);
}

void Driver::SetHangRules(const HangRules& rules) {
  const MutexLock lock(mutex_);
  model_.SetHangRules(rules);
}

void Driver::SetLost(unsigned index, bool lost) {
  const MutexLock lock(mutex_);
  model_.SetLost(static_cast<int>(index), lost);
}

void Driver::AddEccErrors(unsigned index, const EccErrors& errors) {
  const MutexLock lock(mutex_);
  EccErrors& counted = model_.Ecc(static_cast<int>(index));
  counted.corrected += errors.corrected;
  counted.uncorrected += errors.uncorrected;
}

std::set<FileId> Driver::RaiseError(unsigned index, rm::NvU32 xid) {
  const MutexLock lock(mutex_);
  return model_.Notify(static_cast<int>(index), rm::NV2080_NOTIFIERS_RC_ERROR, xid);
}

// nv.c nvidia_poll().
short Driver::PollFile(FileId file) {
  const MutexLock lock(mutex_);
  const OpenFile* const open = model_.FindFile(file);
  if (open == nullptr) {
    return POLLERR;
  }
  const auto gpu = std::ranges::find(gpus_, open->minor, &Gpu::minor);
  if (open->kind == FileKind::kGpu && gpu != gpus_.end() &&
      model_.IsLost(static_cast<int>(gpu->index))) {
    return POLLHUP;
  }
  return open->events.empty() ? 0 : POLLIN | POLLPRI;
}

void Driver::TellGpu() {
  if (model_.Engines() != nullptr) {
    model_.TellOfSpaces();
  }
}

bool Driver::Translate(rm::NvU64 space, rm::NvU64 address,
                       const std::function<void(const GpuPlace&)>& visit) {
  const MutexLock lock(mutex_);
  const DriverModel::KnownSpace* known = model_.FindSpace(space);
  const auto tables = known == nullptr ? nullptr : known->tables.lock();
  if (tables == nullptr) {
    return false;
  }
  // nvidia-uvm fills the page tables of a space that is owned externally; RM those of others.
  const auto vaspace = known->vaspace.lock();
  const auto place = vaspace != nullptr && vaspace->externally_owned
                         ? uvm_.Find(*vaspace, known->gpu, address)
                         : tables->Find(address);
  if (place) {
    visit(*place);
  }
  return place.has_value();
}

void Driver::WithBlock(const std::weak_ptr<Block>& block,
                       const std::function<void(Block&)>& visit) {
  const MutexLock lock(mutex_);
  if (const auto held = block.lock()) {
    visit(*held);
  }
}

// kernel-open/nvidia/nv.c nvidia_ioctl(): number and size alone decide, XFER is unwrapped once.
Call Driver::Prepare(FileId file, rm::NvU32 request, rm::NvP64 argument, Caller& caller) {
  Call call;
  call.file = file;
  call.nr = rm::EscapeNr(request);
  call.address = argument;
  rm::NvU32 size = rm::EscapeSize(request);
  if (call.nr == rm::NV_ESC_IOCTL_XFER_CMD) {
    std::vector<std::byte> outer;
    if (size != sizeof(rm::nv_ioctl_xfer_t)) {
      FailWithErrno(call, EINVAL);
      return call;
    }
    if (!ReadBytes(caller, argument, size, &outer)) {
      FailWithErrno(call, EFAULT);
      return call;
    }
    const auto xfer = Load<rm::nv_ioctl_xfer_t>(outer);
    // The driver compares the whole 32 bits of cmd: one with more than a number is unknown to it.
    if (xfer.size > rm::NV_ABSOLUTE_MAX_IOCTL_SIZE || xfer.cmd > 0xFF ||
        xfer.cmd == rm::NV_ESC_IOCTL_XFER_CMD) {
      FailWithErrno(call, EINVAL);
      return call;
    }
    call.nr = static_cast<rm::NvU8>(xfer.cmd);
    call.address = xfer.ptr;
    size = xfer.size;
  }
  if (!ReadBytes(caller, call.address, size, &call.bytes)) {
    FailWithErrno(call, EFAULT);
    return call;
  }
  if (!rm::EscapeAcceptsSize(abi_, call.nr, size)) {
    FailWithErrno(call, EINVAL);
    return call;
  }
  ReadSecondLevel(call, caller);
  return call;
}

void Driver::ReadSecondLevel(Call& call, Caller& caller) {
  if (call.nr == rm::NV_ESC_RM_ALLOC) {
    ReadAlloc(call, caller);
  } else if (call.nr == rm::NV_ESC_RM_CONTROL) {
    ReadControl(call, caller);
  } else if (call.nr == rm::NV_ESC_RM_IDLE_CHANNELS) {
    ReadIdleChannels(call, caller);
  } else if (call.nr == rm::NV_ESC_RM_ALLOC_MEMORY) {
    const auto api = Load<rm::NVOS02_PARAMETERS>(call.bytes);
    call.cls = api.hClass;
    if (api.hClass == rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
      TouchPages(call, api.pMemory, api.limit, caller);
    }
  } else if (call.nr == rm::NV_ESC_RM_VID_HEAP_CONTROL) {
    const auto api = Load<rm::NVOS32_PARAMETERS>(call.bytes);
    if (api.function == rm::NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR) {
      constexpr std::size_t kDescriptor = 24;  // in AllocOsDesc; the limit follows
      const auto data = std::as_bytes(std::span(api.data.raw)).subspan(kDescriptor);
      TouchPages(call, Load<rm::NvP64>(data), Load<rm::NvU64>(data.subspan(sizeof(rm::NvP64))),
                 caller);
    }
  }
}

// os-mlock.c os_lock_user_pages() needs every page; the first and the last are looked at here.
void Driver::TouchPages(Call& call, rm::NvP64 address, rm::NvU64 limit, Caller& caller) {
  std::byte byte{};
  if (limit > ~rm::NvU64{0} - address || !caller.Read(address, std::span(&byte, 1)) ||
      !caller.Read(address + limit, std::span(&byte, 1))) {
    call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
  } else {
    call.pages = caller.PagesAt(address, limit + 1);
  }
}

// rmapi_deprecated_misc.c RmDeprecatedIdleChannels(): the clients of a list.
void Driver::ReadIdleChannels(Call& call, Caller& caller) {
  const auto api = Load<rm::NVOS30_PARAMETERS>(call.bytes);
  const bool list = (api.flags >> 4 & 0xFU) == 0;
  if (!list || api.numChannels == 0) {
    return;
  }
  if (api.numChannels > kMaxParams / sizeof(rm::NvHandle)) {
    call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
  } else if (!ReadBytes(caller, api.phClients, api.numChannels * sizeof(rm::NvHandle),
                        &call.params.bytes)) {
    call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
  }
}

// alloc_free.c serverAllocApiCopyIn(): the class's table gives the size.
void Driver::ReadAlloc(Call& call, Caller& caller) {
  const auto api = Load<rm::NVOS21_PARAMETERS>(call.bytes);
  call.cls = api.hClass;
  call.params.address = api.pAllocParms;
  const rm::ClassRow* row = rm::FindClass(api.hClass);
  if (row == nullptr) {
    return;
  }
  const rm::NvU32 size = row->Size(abi_.branch);
  if (row->params == rm::ClassParams::kNone || size == 0) {
    return;
  }
  if (api.pAllocParms == 0) {
    call.null_params = row->params == rm::ClassParams::kRequired;
    return;
  }
  if (!ReadBytes(caller, api.pAllocParms, size, &call.params.bytes)) {
    call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
  }
}

// Reads what embedded_param_copy.c reads of a control, whether the control is simulated or not.
bool Driver::IsReadable(Call& call, const rm::EmbeddedPointer& pointer, Caller& caller) {
  const std::span<const std::byte> params = call.params.bytes;
  const auto size = pointer.Bytes(Load<rm::NvU32>(params.subspan(pointer.count_offset)));
  const auto address = Load<rm::NvP64>(params.subspan(pointer.pointer_offset));
  std::vector<std::byte> bytes;
  if (!size) {
    call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
  } else if (address != 0 && pointer.direction != rm::PointerDirection::kOut &&
             !ReadBytes(caller, address, *size, &bytes)) {
    call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
  }
  return call.copy_in == rm::NV_OK;
}

// control.c _rmapiRmControl() and serverControlApiCopyIn(); embedded_param_copy.c.
void Driver::ReadControl(Call& call, Caller& caller) {
  const auto api = Load<rm::NVOS54_PARAMETERS>(call.bytes);
  call.control = api.cmd;
  call.params.address = api.params;
  const rm::ControlRow* row = rm::FindControl(api.cmd);
  // The kernel driver's own tables do not have the firmware's commands.
  const bool own = row != nullptr && row->most_bytes == 0 && row->Known(abi_.branch);
  const rm::NvU32 expected = own ? row->Size(abi_.branch) : 0;
  const bool wrong_size = own && !row->Takes(abi_.branch, api.paramsSize);
  if ((api.params == 0) != (api.paramsSize == 0) || wrong_size || api.paramsSize > kMaxParams) {
    call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
    return;
  }
  if (!ReadBytes(caller, api.params, api.paramsSize, &call.params.bytes)) {
    call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
    return;
  }
  for (const rm::EmbeddedPointer& pointer : rm::EmbeddedPointers(api.cmd)) {
    if (expected != 0 && abi_.branch >= pointer.since && !IsReadable(call, pointer, caller)) {
      return;
    }
  }
  const ControlEntry* entry = FindControlEntry(api.cmd);
  if (entry == nullptr || entry->embedded.stride == 0 || expected == 0) {
    return;
  }
  const std::span<const std::byte> params = call.params.bytes;
  const auto count = Load<rm::NvU32>(params.subspan(entry->embedded.count_offset));
  call.embedded.address = Load<rm::NvP64>(params.subspan(entry->embedded.pointer_offset));
  if (count > entry->embedded.max_count) {
    call.copy_in = rm::NV_ERR_INVALID_ARGUMENT;
  } else if (call.embedded.address != 0 &&
             !ReadBytes(caller, call.embedded.address, std::size_t{count} * entry->embedded.stride,
                        &call.embedded.bytes)) {
    call.copy_in = rm::NV_ERR_INVALID_ADDRESS;
  }
}

void Driver::Execute(Call& call, Caller& caller) {
  if (!call.done) {
    call.done = true;
    Escapes::LookAhead(call, caller);
    RunEscape(call, caller);
    Await(call);
  }
  CountCall(CallName(call), call.error != 0 || call.status != rm::NV_OK);
}

void Driver::RunEscape(Call& call, Caller& caller) {
  const MutexLock lock(mutex_);
  Escapes(model_, version_, memblock_size_, call, caller).Run();
  TellGpu();
}

GpuPort* Driver::Engines() {
  const MutexLock lock(mutex_);
  return model_.Engines();
}

// Waits without the lock for the work that a control started, as RM waits in its firmware's call.
void Driver::Await(Call& call) {
  if (call.wait.ticket == 0) {
    return;
  }
  switch (Engines()->Await(call.wait.ticket, call.wait.timeout_us)) {
    case GpuPort::Waited::kDone:
      return;
    case GpuPort::Waited::kTimeout:
      Escapes::PutStatus(call, rm::NV_ERR_TIMEOUT);
      return;
    case GpuPort::Waited::kDead:
      Escapes::PutStatus(call, rm::NV_ERR_GPU_IS_LOST);
      return;
  }
}

void Driver::CountCall(const std::string& name, bool refused) {
  const MutexLock lock(mutex_);
  Count& count = counts_[name];
  ++count.received;
  count.refused += refused ? 1 : 0;
}

int Driver::Finish(Call& call, Caller& caller) {
  for (Call::Second* second : {&call.embedded, &call.params}) {
    if (second->write_back && !second->bytes.empty() &&
        !caller.Write(second->address, second->bytes)) {
      Escapes::PutStatus(call, rm::NV_ERR_INVALID_ADDRESS);
    }
  }
  // nv.c copies the parameters out whatever the outcome, unless it could not read them.
  if (call.error != EFAULT && !call.bytes.empty() && !caller.Write(call.address, call.bytes)) {
    call.error = EFAULT;
  }
  return call.error;
}

void Driver::FailWithStatus(Call& call, NvStatus status) {
  call.done = true;
  Escapes::PutStatus(call, status);
}

void Driver::FailWithErrno(Call& call, int error) {
  call.done = true;
  call.error = error;
}

std::optional<MapContext> Driver::MapContextOf(FileId file) {
  const MutexLock lock(mutex_);
  const OpenFile* open = model_.FindFile(file);
  return open == nullptr ? std::nullopt : open->map;
}

Accounting Driver::GetAccounting(Counts* counts) {
  const MutexLock lock(mutex_);
  *counts = counts_;
  return model_.GetAccounting();
}

std::vector<ObjectName> Driver::Objects() {
  const MutexLock lock(mutex_);
  return model_.Objects();
}

std::string Driver::CallName(const Call& call) {
  const rm::EscapeRow* row = rm::FindEscape(call.nr);
  std::string escape = row == nullptr ? "ioctl " + Hex(call.nr) : std::string(row->name);
  if (call.nr == rm::NV_ESC_RM_CONTROL && call.control != 0) {
    const rm::ControlRow* control = rm::FindControl(call.control);
    return control == nullptr ? escape + " " + Hex(call.control) : std::string(control->name);
  }
  if ((call.nr == rm::NV_ESC_RM_ALLOC || call.nr == rm::NV_ESC_RM_ALLOC_MEMORY) &&
      !call.bytes.empty()) {
    return escape + " " + Hex(call.cls);
  }
  return escape;
}

}  // namespace cgpu::sim
