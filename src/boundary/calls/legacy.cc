// An older interface that graphics libraries still use: RM_ALLOC_MEMORY, RM_ALLOC_CONTEXT_DMA2 and
// RM_IDLE_CHANNELS. The driver turns the first two into RM_ALLOC
// (src/nvidia/interface/deprecated/rmapi_deprecated_allocmemory.c, rmapi_deprecated_misc.c).
#include <algorithm>
#include <cstddef>
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "boundary/policy.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Lets the caller pin memory of its own for the GPU. The driver pins pages of the process that
// executes the call (kernel-open/nvidia/os-mlock.c), so the caller must execute it. Another thread
// may change every word of the parameters, and the file, after they were checked: the registers
// alone are sure. With this number, no ioctl on any of our files makes GPU memory for a caller
// without CAP_SYS_ADMIN (NV01_MEMORY_LOCAL_USER becomes host memory, the classes of GPU memory are
// for administrators), and each acts only for clients on the very file. An XFER's number says
// nothing, so an XFER is refused. No container has CAP_SYS_ADMIN (run/init.cc).
//
// But the object may come to lie in another client, under another handle, below another parent, and
// be of another class: memory of the host, or a window onto registers. So it is entered as
// doubtful (ledger.h), without GPU memory, before it exists. No call uses it until the driver has
// it as it was entered. No call uses what came to be elsewhere either: the ledger does not know
// its handle.
//
// Once the driver has it as it was entered, that stays so: the driver accepts no second object
// under a handle (rs_client.c clientAssignResourceHandle()), and everything else goes through the
// shim. Whatever comes of the call, it counts as an object.
Decision DecidePinnedMemory(Container& container, Call& call, Decision decision) {
  if (call.wrapped) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            "RM_ALLOC_MEMORY in an XFER");
  }
  const auto handle = Load<rm::NVOS02_PARAMETERS>(call.image).hObjectNew;
  (void)container.ledger.Find(decision.client, handle);  // one that is doubtful is settled first
  if (container.ledger.Doubted()) {
    decision.action = Decision::Action::kAsk;
    return decision;
  }
  auto reservation = container.ledger.Reserve(ledger::Kind::kOther);
  if (!reservation.ok()) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            "objects over a quota");
  }
  ledger::NewObject object;
  object.parent = decision.object;
  object.handle = handle;
  object.cls = call.command;
  object.doubtful = true;
  // For the handle 0 the driver chooses one, and reports it to nobody.
  if (handle == 0 || !container.ledger.AddObject(*reservation, decision.client, object).ok()) {
    container.ledger.AddStray(*reservation);
  }
  decision.action = Decision::Action::kContinue;
  return decision;
}

}  // namespace

void DecodeAllocMemory(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  const auto head = Load<rm::NVOS02_PARAMETERS>(call.image);
  call.client = head.hRoot;
  call.object = head.hObjectParent;
  call.command = head.hClass;
  if (head.hClass == rm::NV01_MEMORY_SYSTEM &&
      rm::NVOS02_FLAGS_MAPPING.Get(head.flags) != rm::NVOS02_FLAGS_MAPPING_NO_MAP) {
    TakeFdArgument(call, offsetof(rm::nv_ioctl_nvos02_parameters_with_fd, fd));
  }
}

bool AllocMemoryChangesState(const Call& call) {
  return call.command != rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;  // which the caller executes
}

// Decides the other classes. None of them takes GPU memory for a caller that is no administrator,
// and the shim is none: NV01_MEMORY_SYSTEM is the host's, NV01_MEMORY_LOCAL_PRIVILEGED a window
// that nobody may open, NV01_MEMORY_LOCAL_USER an object without memory that reports the size of
// the heap.
Decision DecideAllocMemory(Container& container, Call& call, Decision decision) {
  const auto params = Load<rm::NVOS02_PARAMETERS>(call.image);
  switch (call.command) {
    case rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
    case rm::NV01_MEMORY_SYSTEM:
    case rm::NV01_MEMORY_LOCAL_PRIVILEGED:
    case rm::NV01_MEMORY_LOCAL_USER:
      break;
    default:
      return container.Answer(call, rm::NV_ERR_INVALID_CLASS, Reason::kNotAllowed,
                              "RM_ALLOC_MEMORY of " + ClassName(call.command));
  }
  const auto parent = container.ledger.Find(decision.client, call.object);
  if (!parent) {
    return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_PARENT, Reason::kInvalid,
                            "RM_ALLOC_MEMORY below an unknown object");
  }
  decision.object = parent->ref;
  decision.gpu = parent->gpu;
  if (call.command == rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
    return DecidePinnedMemory(container, call, std::move(decision));
  }
  // The driver would choose a handle and report it to nobody.
  if (params.hObjectNew == 0) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            "RM_ALLOC_MEMORY without a handle");
  }
  if (call.fd && (!call.fd->file || !call.fd->file->granted)) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            "RM_ALLOC_MEMORY onto a foreign file");
  }
  return Reserve(container, call, std::move(decision), ledger::Kind::kOther, 0);
}

std::optional<Undo> AccountAllocMemory(Container& container, Call& call, Decision& decision) {
  if (decision.action == Decision::Action::kContinue) {
    return std::nullopt;
  }
  auto params = Load<rm::NVOS02_PARAMETERS>(call.image);
  const bool heap = call.command == rm::NV01_MEMORY_LOCAL_USER;
  const auto undo =
      AddMade(container, call, decision,
              {.handle = params.hObjectNew, .cls = heap ? rm::NV01_MEMORY_VIRTUAL : call.command});
  if (!undo && heap && decision.gpu) {
    params.limit = std::min(params.limit, container.ledger.Limit(*decision.gpu) - 1);
    Store(call.image, params);
  }
  return undo;
}

void DecodeAllocContextDma(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  const auto head = Load<rm::NVOS39_PARAMETERS>(call.image);
  call.client = head.hObjectParent;
  call.command = head.hClass;
}

// Decides a context DMA, which names a client's own memory by its own handles. For virtual memory
// the driver would make another range of addresses.
Decision DecideAllocContextDma(Container& container, Call& call, Decision decision) {
  const auto params = Load<rm::NVOS39_PARAMETERS>(call.image);
  if (params.hClass != rm::NV01_CONTEXT_DMA) {
    return container.Answer(call, rm::NV_ERR_INVALID_CLASS, Reason::kNotAllowed,
                            "RM_ALLOC_CONTEXT_DMA2 of " + ClassName(params.hClass));
  }
  const auto memory = container.ledger.Find(decision.client, params.hMemory);
  if (!memory) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "RM_ALLOC_CONTEXT_DMA2 of unknown memory");
  }
  if (IsRangeClass(memory->cls) || IsSharedMemory(memory->cls)) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            "RM_ALLOC_CONTEXT_DMA2 of " + ClassName(memory->cls));
  }
  decision.object = {memory->parent, 0};
  call.object = memory->parent;
  return Reserve(container, call, std::move(decision), ledger::Kind::kOther, 0);
}

std::optional<Undo> AccountAllocContextDma(Container& container, Call& call, Decision& decision) {
  const auto params = Load<rm::NVOS39_PARAMETERS>(call.image);
  const auto undo = AddMade(container, call, decision,
                            {.handle = params.hObjectNew, .cls = rm::NV01_CONTEXT_DMA});
  if (!undo) {
    // If the memory is gone by now, the context DMA is gone too.
    (void)container.ledger.AddDependency(decision.client, params.hObjectNew, params.hMemory).ok();
  }
  return undo;
}

// Notes three lists of handles, where a list is asked for.
void DecodeIdleChannels(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
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
    NoteNested(call, size, -1, at, /*copy_out=*/false, /*copy_in=*/true);
  }
}

// Decides RM_IDLE_CHANNELS. The driver lets a client name only its own channels
// (kernel_idle_channels.c), and waits for them while it locks the GPU against all others. So the
// call gets no time.
Decision DecideIdleChannels(Container& container, Call& call, Decision decision) {
  if (call.copy_in != rm::NV_OK) {
    return container.Answer(call, call.copy_in, Reason::kInvalid, "RM_IDLE_CHANNELS (copy in)");
  }
  auto params = Load<rm::NVOS30_PARAMETERS>(call.image);
  if (call.pointers[0].target >= 0) {
    const Bytes& clients = call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes;
    for (std::size_t at = 0; at < clients.size(); at += sizeof(std::uint32_t)) {
      if (Load<std::uint32_t>(clients, at) != call.client) {
        return container.Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS, Reason::kInvalid,
                                "RM_IDLE_CHANNELS of another client's channels");
      }
    }
  }
  decision.given_flags = params.timeout;
  params.timeout = 0;
  Store(call.image, params);
  return decision;
}

void SettleIdleChannels(Container& /*container*/, Call& call, const Decision& decision,
                        const Outcome& /*outcome*/) {
  Store(call.image, static_cast<std::uint32_t>(decision.given_flags),
        offsetof(rm::NVOS30_PARAMETERS, timeout));
}

}  // namespace cgpu::boundary
