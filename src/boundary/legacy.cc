// Decides the escapes of an older interface that graphics libraries still use: RM_ALLOC_MEMORY,
// RM_ALLOC_CONTEXT_DMA2 and RM_IDLE_CHANNELS. The driver turns the first two into RM_ALLOC
// (src/nvidia/interface/deprecated/rmapi_deprecated_allocmemory.c, rmapi_deprecated_misc.c).
#include <algorithm>
#include <utility>

#include "boundary/boundary.h"
#include "boundary/names.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

// Lets the caller pin memory of its own for the GPU. The driver pins pages of the process that
// executes the call (kernel-open/nvidia/os-mlock.c), so the caller must execute it. That is sound
// although another thread may change the parameters after they were checked, because it depends on
// the registers alone. With this number, no ioctl on any of our files makes GPU memory for a caller
// without CAP_SYS_ADMIN (NV01_MEMORY_LOCAL_USER becomes host memory, the classes of GPU memory are
// for administrators), and each acts only for clients on the very file. An XFER's number says
// nothing, so an XFER is refused. No container has CAP_SYS_ADMIN (launcher/init.cc).
//
// The object is entered here as one without GPU memory, before it exists. If it never comes to
// exist, the driver accepts another object under the handle, and that one then takes its place
// (AccountNew()). An object that the ledger already has under the handle stays.
Decision Boundary::DecidePinnedMemory(Call& call, Decision decision) {
  if (call.wrapped) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED, "RM_ALLOC_MEMORY in an XFER");
  }
  auto reservation = ledger_.Reserve(ledger::Kind::kOther);
  if (!reservation.ok()) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, "objects over a bound");
  }
  ledger::NewObject object;
  object.parent = decision.object;
  object.handle = Load<rm::NVOS02_PARAMETERS>(call.image).hObjectNew;
  object.cls = call.command;
  if (!ledger_.AddObject(*reservation, decision.client, object).ok()) {
    ledger_.Cancel(*reservation);
  }
  decision.action = Decision::Action::kContinue;
  return decision;
}

// Decides the other classes. None of them takes GPU memory for a caller that is no administrator,
// and the shim is none: NV01_MEMORY_SYSTEM is the host's, NV01_MEMORY_LOCAL_PRIVILEGED a window
// that nobody may open, NV01_MEMORY_LOCAL_USER an object without memory that reports the size of
// the heap.
Decision Boundary::DecideAllocMemory(Call& call, Decision decision) {
  const auto params = Load<rm::NVOS02_PARAMETERS>(call.image);
  switch (call.command) {
    case rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
    case rm::NV01_MEMORY_SYSTEM:
    case rm::NV01_MEMORY_LOCAL_PRIVILEGED:
    case rm::NV01_MEMORY_LOCAL_USER:
      break;
    default:
      return Answer(call, rm::NV_ERR_INVALID_CLASS,
                    "RM_ALLOC_MEMORY of " + ClassName(call.command));
  }
  const auto parent = ledger_.Find(decision.client, call.object);
  if (!parent) {
    return Answer(call, rm::NV_ERR_INVALID_OBJECT_PARENT,
                  "RM_ALLOC_MEMORY below an unknown object");
  }
  decision.object = parent->ref;
  decision.card = parent->card;
  if (call.command == rm::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
    return DecidePinnedMemory(call, std::move(decision));
  }
  // The driver would choose a handle and report it to nobody.
  if (params.hObjectNew == 0) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "RM_ALLOC_MEMORY without a handle");
  }
  if (call.fd && (!call.fd->file || !call.fd->file->granted)) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "RM_ALLOC_MEMORY onto a foreign file");
  }
  return Reserve(call, std::move(decision), ledger::Kind::kOther, 0);
}

std::optional<Undo> Boundary::AccountAllocMemory(Call& call, Decision& decision) {
  if (decision.action == Decision::Action::kContinue) {
    return std::nullopt;
  }
  auto params = Load<rm::NVOS02_PARAMETERS>(call.image);
  const bool heap = call.command == rm::NV01_MEMORY_LOCAL_USER;
  const auto undo = AccountNew(call, decision, params.hObjectNew,
                               heap ? rm::NV01_MEMORY_VIRTUAL : call.command, 0);
  if (!undo && heap && decision.card) {
    params.limit = std::min(params.limit, ledger_.Limit(*decision.card) - 1);
    Store(call.image, params);
  }
  return undo;
}

// Decides a context DMA, which names a client's own memory by its own handles. For virtual memory
// the driver would make another range of addresses.
Decision Boundary::DecideAllocContextDma(Call& call, Decision decision) {
  const auto params = Load<rm::NVOS39_PARAMETERS>(call.image);
  if (params.hClass != rm::NV01_CONTEXT_DMA) {
    return Answer(call, rm::NV_ERR_INVALID_CLASS,
                  "RM_ALLOC_CONTEXT_DMA2 of " + ClassName(params.hClass));
  }
  const auto memory = ledger_.Find(decision.client, params.hMemory);
  if (!memory) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "RM_ALLOC_CONTEXT_DMA2 of unknown memory");
  }
  if (IsRangeClass(memory->cls)) {
    return Answer(call, rm::NV_ERR_NOT_SUPPORTED, "RM_ALLOC_CONTEXT_DMA2 of virtual memory");
  }
  decision.object = {memory->parent, 0};
  call.object = memory->parent;
  return Reserve(call, std::move(decision), ledger::Kind::kOther, 0);
}

std::optional<Undo> Boundary::AccountAllocContextDma(Call& call, Decision& decision) {
  const auto params = Load<rm::NVOS39_PARAMETERS>(call.image);
  const auto undo = AccountNew(call, decision, params.hObjectNew, rm::NV01_CONTEXT_DMA, 0);
  if (!undo) {
    // If the memory is gone by now, the context DMA is gone too.
    (void)ledger_.AddDependency(decision.client, params.hObjectNew, params.hMemory).ok();
  }
  return undo;
}

// Decides RM_IDLE_CHANNELS. The driver lets a client name only its own channels
// (kernel_idle_channels.c), and waits for them while it locks the GPU against all others. So the
// call gets no time.
Decision Boundary::DecideIdleChannels(Call& call, Decision decision) {
  if (call.copy_in != rm::NV_OK) {
    return Answer(call, call.copy_in, "RM_IDLE_CHANNELS (copy in)");
  }
  auto params = Load<rm::NVOS30_PARAMETERS>(call.image);
  if (call.pointers[0].target >= 0) {
    const Bytes& clients = call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes;
    for (std::size_t at = 0; at < clients.size(); at += sizeof(std::uint32_t)) {
      if (Load<std::uint32_t>(clients, at) != call.client) {
        return Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
                      "RM_IDLE_CHANNELS of another client's channels");
      }
    }
  }
  decision.given_flags = params.timeout;
  params.timeout = 0;
  Store(call.image, params);
  return decision;
}

}  // namespace cgpu::boundary
