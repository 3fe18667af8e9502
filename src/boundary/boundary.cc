#include "boundary/boundary.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "boundary/names.h"
#include "boundary/policy.h"
#include "rm/class_table.h"
#include "rm/control_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_escape.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/vidmem.h"

namespace cgpu::boundary {
namespace {

std::optional<std::size_t> StatusAt(const Call& call) {
  return call.uvm_request != 0
             ? call.uvm_status
             : rm::StatusOffset(static_cast<rm::NvU8>(call.nr), call.image.size());
}

}  // namespace

std::optional<std::uint32_t> StatusOf(const Call& call) {
  const auto at = StatusAt(call);
  return at ? std::optional(Load<std::uint32_t>(call.image, *at)) : std::nullopt;
}

void SetStatus(Call& call, std::uint32_t status) {
  if (const auto at = StatusAt(call)) {
    Store(call.image, status, *at);
  }
}

Boundary::Boundary(const rm::Abi& abi, std::vector<CardIds> cards, ledger::Ledger& ledger)
    : abi_(abi), cards_(std::move(cards)), ledger_(ledger), managed_(ledger) {
  SetBounds();
}

std::optional<ledger::Card> Boundary::CardOfGpuId(std::uint32_t gpu_id) const {
  const auto found = std::find_if(cards_.begin(), cards_.end(),
                                  [&](const CardIds& card) { return card.gpu_id == gpu_id; });
  return found == cards_.end() ? std::nullopt
                               : std::optional(static_cast<ledger::Card>(found - cards_.begin()));
}

std::optional<ledger::Card> Boundary::CardOfInstance(std::uint32_t instance) const {
  const auto found = std::find_if(cards_.begin(), cards_.end(), [&](const CardIds& card) {
    return card.device_instance == instance;
  });
  return found == cards_.end() ? std::nullopt
                               : std::optional(static_cast<ledger::Card>(found - cards_.begin()));
}

Needs Boundary::NeedsOf(const Call& call) const {
  Needs needs;
  if (call.uvm_request != 0) {
    if (call.ChangesState()) {
      needs.space = call.uvm_space;
    }
    return needs;
  }
  const bool makes_client = call.nr == rm::NV_ESC_RM_ALLOC && IsClientClass(call.command);
  if (makes_client || (call.nr == rm::NV_ESC_RM_FREE && call.object == call.client)) {
    needs.clients.push_back(kAnyClient);  // the driver picks the handle, perhaps one just freed
  }
  if (call.client == 0) {
    return needs;
  }
  if (call.ChangesState()) {
    needs.clients.push_back(call.client);
    if (call.source_client != 0 && call.source_client != call.client) {
      needs.clients.push_back(call.source_client);
    }
  }
  if (const auto client = ledger_.FindClient(call.client)) {
    needs.card = ledger_.CardOf(client->ref, call.object);
  }
  return needs;
}

Decision Boundary::Answer(Call& call, std::uint32_t status, const std::string& what) {
  CountRefused(what);
  SetStatus(call, status);
  Decision decision;
  decision.action = Decision::Action::kAnswer;
  return decision;
}

Decision Boundary::Fail(int error, const std::string& what) {
  CountRefused(what);
  Decision decision;
  decision.error = error;
  return decision;
}

// Refuses with the driver's own status where the parameters have room for one.
Decision Boundary::RefuseEscape(Call& call) {
  return StatusOf(call) ? Answer(call, rm::NV_ERR_NOT_SUPPORTED, EscapeName(call.nr))
                        : Fail(EINVAL, EscapeName(call.nr));
}

Decision Boundary::Decide(Call& call) {
  if (call.uvm_request != 0) {
    return DecideUvm(call);
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  if (call.nr == rm::NV_ESC_RM_CONTROL && (call.command & 0xffffU) == 0) {
    SetStatus(call, rm::NV_OK);  // control.c: index 0 of every class is the command that does
                                 // nothing
    decision.action = Decision::Action::kAnswer;
    return decision;
  }
  switch (call.nr) {
    case rm::NV_ESC_CHECK_VERSION_STR:
    case rm::NV_ESC_SYS_PARAMS:
    case rm::NV_ESC_WAIT_OPEN_COMPLETE:
    case rm::NV_ESC_CARD_INFO:
    case rm::NV_ESC_RM_GET_EVENT_DATA:  // reads what waits on the file itself
      return decision;
    case rm::NV_ESC_RM_ALLOC_OBJECT:     // the older RM_ALLOC, without parameters
    case rm::NV_ESC_RM_I2C_ACCESS:       // buses of the board
    case rm::NV_ESC_RM_ACCESS_REGISTRY:  // settings of the host
    case rm::NV_ESC_RM_LOCKLESS_DIAGNOSTIC:
    case rm::NV_ESC_QUERY_DEVICE_INTR:
    case rm::NV_ESC_NUMA_INFO:  // where the whole GPU's memory lies, and its size
    case rm::NV_ESC_SET_NUMA_STATUS:
    case rm::NV_ESC_EXPORT_TO_DMABUF_FD:  // the driver does not check whose the client is
      return RefuseEscape(call);
    case rm::NV_ESC_STATUS_CODE:
      return DecideStatusCode(call);
    case rm::NV_ESC_ATTACH_GPUS_TO_FD:
      return DecideAttachFd(call);
    case rm::NV_ESC_REGISTER_FD:
      return DecideRegisterFd(call);
    case rm::NV_ESC_RM_ALLOC:
      if (const auto status = FaultOfAlloc(call); status != rm::NV_OK) {
        return Answer(call, status, "RM_ALLOC with wrong parameters");
      }
      if (IsClientClass(call.command)) {
        return DecideClient(call);
      }
      break;
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      if (!IsListedHeapFunction(call.command)) {
        return Answer(call, rm::NV_ERR_NOT_SUPPORTED,
                      Hex("VID_HEAP_CONTROL function", call.command));
      }
      break;
    case rm::NV_ESC_RM_SHARE:
      if (Load<rm::NVOS57_PARAMETERS>(call.image).sharePolicy.type > rm::RS_SHARE_TYPE_FM_CLIENT) {
        return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "RM_SHARE of an unknown type");
      }
      break;
    default:
      break;
  }
  // Everything else acts for a client, which must be one of this container's.
  const auto client = ledger_.FindClient(call.client);
  if (!client) {
    return Answer(call, NoSuchClient(call.nr), EscapeName(call.nr) + " on a foreign client");
  }
  decision.client = client->ref;
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC:
      return DecideAlloc(call, std::move(decision));
    case rm::NV_ESC_RM_CONTROL:
      return DecideControl(call, std::move(decision));
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      return DecideVidHeap(call, std::move(decision));
    case rm::NV_ESC_RM_DUP_OBJECT:
      return DecideDup(call, std::move(decision));
    case rm::NV_ESC_RM_FREE:
      return DecideFree(call, std::move(decision), call.object);
    case rm::NV_ESC_RM_MAP_MEMORY:
      return DecideMapMemory(call, std::move(decision));
    case rm::NV_ESC_RM_SHARE:
      return DecideShare(call, std::move(decision));
    case rm::NV_ESC_RM_MAP_MEMORY_DMA:
      return DecideMapDma(call, std::move(decision));
    case rm::NV_ESC_RM_UNMAP_MEMORY:
    case rm::NV_ESC_RM_UNMAP_MEMORY_DMA:
    case rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
    case rm::NV_ESC_RM_BIND_CONTEXT_DMA:
    case rm::NV_ESC_FREE_OS_EVENT:
      return decision;
    case rm::NV_ESC_ALLOC_OS_EVENT:
      return DecideAllocOsEvent(call, std::move(decision));
    case rm::NV_ESC_RM_ALLOC_MEMORY:
      return DecideAllocMemory(call, std::move(decision));
    case rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2:
      return DecideAllocContextDma(call, std::move(decision));
    case rm::NV_ESC_RM_IDLE_CHANNELS:
      return DecideIdleChannels(call, std::move(decision));
    default:
      return RefuseEscape(call);
  }
}

// The driver lets any caller choose a client's handle, so also that of another container's client
// that is just gone: a caller that asks the driver about the one would learn of the other. So a
// tenant may not choose handles that the driver itself gives out.
Decision Boundary::DecideClient(Call& call) {
  Decision decision;
  if (IsDriverChosenClient(call.client)) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS,
                  "a client under a handle of the driver's");
  }
  auto reservation = ledger_.ReserveClient();
  if (!reservation.ok()) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, "clients over the bound");
  }
  decision.action = Decision::Action::kExecute;
  decision.reservation = std::move(*reservation);
  return decision;
}

// Refuses to free memory that a channel uses. The driver would free a channel's error notifiers or
// USERD and go on writing there.
Decision Boundary::DecideFree(Call& call, Decision decision, std::uint32_t handle) {
  if (ledger_.IsKept(decision.client, handle)) {
    return Answer(call, rm::NV_ERR_STATE_IN_USE,
                  "RM_FREE of memory that a channel or an encoder session uses: free that first");
  }
  const auto object = ledger_.Find(decision.client, handle);
  decision.object = object ? object->ref : ledger::ObjectRef();  // not the parent of a heap's call
  return decision;
}

Decision Boundary::Reserve(Call& call, Decision decision, ledger::Kind kind, std::uint64_t bytes) {
  decision.card = ledger_.CardOf(decision.client, call.object);
  if (bytes > 0 && !decision.card) {
    return Answer(call, rm::NV_ERR_INVALID_OBJECT_PARENT, "card memory below no card");
  }
  const ledger::Card card = decision.card.value_or(0);
  auto reservation = ledger_.Reserve(kind, card, bytes);
  if (!reservation.ok()) {
    const bool memory =
        bytes > 0 &&
        bytes > ledger_.Limit(card) -
                    std::min(ledger_.Limit(card), ledger_.Used(card) + ledger_.Reserved(card));
    Decision refusal =
        Answer(call, memory ? rm::NV_ERR_NO_MEMORY : rm::NV_ERR_INSUFFICIENT_RESOURCES,
               memory ? "memory over the limit" : "objects over a bound");
    refusal.over_limit = memory;
    refusal.card = card;
    return refusal;
  }
  decision.reservation = std::move(*reservation);
  decision.bytes = bytes;
  return decision;
}

// Checks parameters that name other clients, because the driver does not check whose they are
// (device_share.c takes the address space of hClientShare's device, event.c attaches an event to
// hParentClient's object).
bool Boundary::OwnsClientsIn(std::uint32_t cls, const Bytes* params) const {
  const auto mine = [this](std::uint32_t client) { return client == 0 || ledger_.Owns(client); };
  if (params == nullptr) {
    return true;
  }
  switch (cls) {
    case rm::NV01_DEVICE_0: {
      const auto device = Load<rm::NV0080_ALLOC_PARAMETERS>(*params);
      return mine(device.hClientShare) && mine(device.hTargetClient);
    }
    case rm::NV_CONFIDENTIAL_COMPUTE:
      return mine(Load<std::uint32_t>(*params));  // NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS::hClient
    case rm::GT200_DEBUGGER:
      return mine(Load<std::uint32_t>(*params, sizeof(std::uint32_t)));  // hAppClient
    case rm::NV01_EVENT:
    case rm::NV01_EVENT_OS_EVENT:
      return mine(Load<rm::NV0005_ALLOC_PARAMETERS>(*params).hParentClient);
    default:
      return true;
  }
}

// Returns the error that the driver finds before it looks for the client (alloc_free.c
// serverAllocApiCopyIn(), which reads the parameters, and serverAllocResourceUnderLock()).
std::uint32_t Boundary::FaultOfAlloc(const Call& call) const {
  if (call.image.size() == sizeof(rm::NVOS64_PARAMETERS) &&
      (Load<rm::NVOS64_PARAMETERS>(call.image).flags & rm::NVOS64_FLAGS_FINN_SERIALIZED) != 0) {
    return rm::NV_ERR_LIB_RM_VERSION_MISMATCH;
  }
  const rm::ClassRow* row = rm::FindClass(call.command);
  if (row != nullptr && row->params == rm::ClassParams::kRequired &&
      AllocParameters(call) == nullptr && row->Size(abi_.branch) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (call.copy_in != rm::NV_OK) {
    return call.copy_in;
  }
  return rm::ClassKnown(abi_, call.command) ? rm::NV_OK : rm::NV_ERR_INVALID_CLASS;
}

Decision Boundary::RefuseClass(Call& call, std::uint32_t status) {
  return Answer(call, status, ClassName(call.command) + ": " + std::string(WhyClass(call.command)));
}

// Gives a device an address space of its own. A device without parameters, or whose parameters name
// no client, is attached to the GPU's global address space (device_share.c), where containers would
// read and write what others have mapped. Its own client's handle gives it one of its own, as
// libcuda asks for it.
Decision Boundary::DecideDevice(Call& call, Decision decision) {
  const Bytes* params = AllocParameters(call);
  auto device = params != nullptr ? Load<rm::NV0080_ALLOC_PARAMETERS>(*params)
                                  : rm::NV0080_ALLOC_PARAMETERS{};
  const auto card = CardOfInstance(device.deviceId);
  if (!card) {  // answered as for a GPU that is not there (device.c)
    const auto handle = Load<rm::NVOS21_PARAMETERS>(call.image).hObjectNew;
    const bool taken = handle != 0 && ledger_.Find(decision.client, handle).has_value();
    return Answer(call, taken ? rm::NV_ERR_INSERT_DUPLICATE_NAME : rm::NV_ERR_INVALID_CLASS,
                  "a device of another card");
  }
  decision = Reserve(call, std::move(decision), ledger::Kind::kOther, 0);
  decision.card = card;
  decision.own_share = decision.action == Decision::Action::kExecute && device.hClientShare == 0;
  if (decision.own_share) {
    device.hClientShare = call.client;
    if (params == nullptr) {
      call.pointers[0].target = static_cast<int>(call.nested.size());
      call.nested.push_back({0, Bytes(sizeof(device)), /*copy_out=*/false});
    }
    Store(call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes, device);
  }
  return decision;
}

// Clears prohibitMultipleInstances (nvos.h), which keeps all others on the GPU off the engine. It
// lies at the same place for decoders, encoders, JPEG and optical flow.
Decision Boundary::DecideVideoEngine(Call& call, Decision decision) {
  decision = Reserve(call, std::move(decision), ledger::Kind::kOther, 0);
  if (const Bytes* params = AllocParameters(call);
      params != nullptr && decision.action == Decision::Action::kExecute) {
    decision.given_flags = Load<std::uint32_t>(*params, rm::kProhibitMultipleInstances);
    Store(call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes, std::uint32_t{0},
          rm::kProhibitMultipleInstances);
  }
  return decision;
}

Decision Boundary::DecideAlloc(Call& call, Decision decision) {
  const ClassRule* rule = FindClassRule(call.command);
  if (rule == nullptr || rule->effect == ClassEffect::kRefuse) {
    return RefuseClass(call, rm::NV_ERR_INVALID_CLASS);
  }
  const auto parent = ledger_.Find(decision.client, call.object);
  if (!parent) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "RM_ALLOC below an unknown object");
  }
  decision.object = parent->ref;
  const Bytes* params = AllocParameters(call);
  if (!OwnsClientsIn(call.command, params)) {
    return Answer(call, NoSuchClient(call.nr), ClassName(call.command) + " with a foreign client");
  }
  switch (rule->effect) {
    case ClassEffect::kPlain:
      return Reserve(call, std::move(decision), ledger::Kind::kOther, 0);
    case ClassEffect::kVideoEngine:
      return DecideVideoEngine(call, std::move(decision));
    case ClassEffect::kDevice:
      return DecideDevice(call, std::move(decision));
    case ClassEffect::kVidmem: {
      if (params == nullptr) {
        return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "memory without parameters");
      }
      const auto memory = Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*params);
      return Reserve(call, std::move(decision), ledger::Kind::kMemory,
                     rm::RoundVidmem(
                         {memory.size, memory.attr, memory.attr2, memory.flags, memory.alignment}));
    }
    case ClassEffect::kDebugger:
      // The driver makes a client of its own for each (kernel_sm_debugger_session.c), so they have
      // a quota.
      return Reserve(call, std::move(decision), ledger::Kind::kDebugger, 0);
    case ClassEffect::kAddressSpace: {
      // The others are the GPU's own, shared by all clients that name them (vaspace_api.c).
      const auto index = params != nullptr ? Load<std::uint32_t>(*params) : 0;
      if (index != rm::NV_VASPACE_ALLOCATION_INDEX_GPU_NEW &&
          index != rm::NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE) {
        return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "an address space of the whole card");
      }
      const std::uint64_t bytes = parent->card ? cards_[*parent->card].figures.space_bytes : 0;
      return Reserve(call, std::move(decision),
                     bytes > 0 ? ledger::Kind::kMemory : ledger::Kind::kOther, bytes);
    }
    case ClassEffect::kInterval: {
      const auto memory = params != nullptr ? Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*params)
                                            : rm::NV_MEMORY_ALLOCATION_PARAMS{};
      return ReserveInterval(call, std::move(decision), memory.size, memory.flags, memory.attr);
    }
    case ClassEffect::kHostMemory:
      return DecideHostMemory(call, std::move(decision), params);
    case ClassEffect::kUnsupported:
    case ClassEffect::kRefuse:
      return RefuseClass(call, rm::NV_ERR_NOT_SUPPORTED);
    case ClassEffect::kChannelGroup:
    case ClassEffect::kChannel: {
      const bool group = rule->effect == ClassEffect::kChannelGroup;
      // The driver gives a channel outside of a group a group of its own.
      const auto in_group = FindClassRule(parent->cls);
      const bool pays =
          group || in_group == nullptr || in_group->effect != ClassEffect::kChannelGroup;
      const std::uint64_t bytes =
          pays && parent->card ? cards_[*parent->card].figures.context_bytes : 0;
      const auto kind = group  ? ledger::Kind::kChannelGroup
                        : pays ? ledger::Kind::kLoneChannel
                               : ledger::Kind::kChannel;
      return Reserve(call, std::move(decision), kind, bytes);
    }
  }
  return Fail(EINVAL, ClassName(call.command));
}

Decision Boundary::DecideDup(Call& call, Decision decision) {
  const auto dup = Load<rm::NVOS55_PARAMETERS>(call.image);
  const auto source = ledger_.FindClient(dup.hClientSrc);
  if (!source) {
    return Answer(call, NoSuchClient(call.nr), "RM_DUP_OBJECT of a foreign client");
  }
  const auto parent = ledger_.Find(decision.client, dup.hParent);
  const auto object = ledger_.Find(source->ref, dup.hObjectSrc);
  if (!parent || !object) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "RM_DUP_OBJECT of an unknown object");
  }
  decision.object = parent->ref;
  auto reservation = ledger_.ReserveDup(source->ref, object->ref);
  if (!reservation.ok()) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, "objects over a bound");
  }
  decision.reservation = std::move(*reservation);
  return decision;
}

// Decides NV_ESC_RM_SHARE. The driver reports whether the client that is shared with exists.
Decision Boundary::DecideShare(Call& call, Decision decision) {
  return CheckSharePolicy(call, std::move(decision),
                          Load<rm::NVOS57_PARAMETERS>(call.image).sharePolicy);
}

Decision Boundary::CheckSharePolicy(Call& call, Decision decision,
                                    const rm::RS_SHARE_POLICY& policy) {
  if (policy.type == rm::RS_SHARE_TYPE_CLIENT && !ledger_.Owns(policy.target)) {
    return Answer(call, NoSuchClient(call.nr), "RM_SHARE with a foreign client");
  }
  if (policy.type == rm::RS_SHARE_TYPE_CLIENT && !AddShare(decision.client, policy)) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, "shares with clients over the bound");
  }
  return decision;
}

Decision Boundary::DecideVidHeap(Call& call, Decision decision) {
  const auto head = Load<rm::NVOS32_PARAMETERS>(call.image);
  const auto parent = ledger_.Find(decision.client, head.hObjectParent);
  // The driver frees without checking the parent (rmapi_deprecated_vidheapctrl.c).
  if (!parent && head.function != rm::NVOS32_FUNCTION_FREE) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "VID_HEAP_CONTROL on an unknown object");
  }
  if (parent) {
    decision.object = parent->ref;
    decision.card = parent->card;
  }
  switch (head.function) {
    case rm::NVOS32_FUNCTION_ALLOC_SIZE: {
      const auto& alloc = head.data.AllocSize;
      const std::uint32_t cls = VidHeapClass(alloc.flags, alloc.attr, alloc.attr2);
      if (FindClassRule(cls) == nullptr) {
        return Answer(call, rm::NV_ERR_INVALID_CLASS, "VID_HEAP_CONTROL of " + ClassName(cls));
      }
      if (cls == rm::NV50_MEMORY_VIRTUAL) {
        return ReserveInterval(call, std::move(decision), alloc.size, alloc.flags, alloc.attr);
      }
      const bool vidmem = cls == rm::NV01_MEMORY_LOCAL_USER;
      return Reserve(
          call, std::move(decision), vidmem ? ledger::Kind::kMemory : ledger::Kind::kOther,
          vidmem
              ? rm::RoundVidmem({alloc.size, alloc.attr, alloc.attr2, alloc.flags, alloc.alignment})
              : 0);
    }
    case rm::NVOS32_FUNCTION_FREE: {
      return DecideFree(call, std::move(decision), head.data.Free.hMemory);
    }
    default:
      return decision;
  }
}

// Decides a call that names a GPU by its place, of which the driver makes its id (gpu.c
// gpuGenerate32BitId()). The driver answers the same error where there is no GPU.
Decision Boundary::DecideStatusCode(Call& call) {
  const auto params = Load<rm::nv_ioctl_status_code_t>(call.image);
  if (!CardOfGpuId((params.domain & 0xffff) << 16 | std::uint32_t{params.bus} << 8 | params.slot)) {
    return Fail(EINVAL, "STATUS_CODE of another card");
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  return decision;
}

Decision Boundary::DecideAttachFd(Call& call) {
  for (std::size_t at = 0; at + sizeof(std::uint32_t) <= call.image.size();
       at += sizeof(std::uint32_t)) {
    const auto gpu_id = Load<std::uint32_t>(call.image, at);
    if (gpu_id != 0 && !CardOfGpuId(gpu_id)) {
      return Fail(EINVAL, "ATTACH_GPUS_TO_FD of another card");
    }
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  return decision;
}

// Allows it only for a GPU's file, as the vendor's libraries use it. The clients on a control file
// that was registered to another would be used through either, and its tag could not be told from
// the other's.
Decision Boundary::DecideRegisterFd(Call& call) {
  if (!call.fd->file || call.fd->file->kind != FileKind::kControl ||
      call.file.kind != FileKind::kCard) {
    return Fail(EINVAL, "REGISTER_FD of a foreign file");
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  return decision;
}

}  // namespace cgpu::boundary
