// RM_ALLOC: makes a client, or an object of a class below another object.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "boundary/policy.h"
#include "boundary/quotas.h"
#include "rm/channel_params.h"
#include "rm/class_table.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"
#include "rm/vidmem.h"

namespace cgpu::boundary {
namespace {

// Returns the parameters, which there are.
Bytes& GivenParameters(Call& call) {
  return call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes;
}

// Stands for a client's file. The ledger needs no more: the shim ends the clients of a file that no
// process has (shim/client_files.h).
constexpr ledger::FileKey kClientsFile = 1;

// The driver lets any caller choose a client's handle, so also that of another container's client
// that is just gone: a caller that asks the driver about the one would learn of the other. So a
// tenant may not choose handles that the driver itself gives out.
Decision DecideClient(Container& container, Call& call) {
  Decision decision;
  if (IsDriverChosenClient(call.client)) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_PERMISSIONS, Reason::kNotAllowed,
                            "a client under a handle of the driver's");
  }
  auto reservation = container.ledger.ReserveClient();
  if (!reservation.ok()) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            "clients over the quota");
  }
  decision.action = Decision::Action::kExecute;
  decision.effects.makes_client = true;
  decision.reservation = std::move(*reservation);
  return decision;
}

// Checks parameters that name other clients, because the driver does not check whose they are
// (device_share.c takes the address space of hClientShare's device, event.c attaches an event to
// hParentClient's object).
bool OwnsClientsIn(const Container& container, std::uint32_t cls, const Bytes* params) {
  const auto mine = [&container](std::uint32_t client) {
    return client == 0 || container.ledger.Owns(client);
  };
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
std::uint32_t FaultOfAlloc(const Container& container, const Call& call) {
  if (call.image.size() == sizeof(rm::NVOS64_PARAMETERS) &&
      (Load<rm::NVOS64_PARAMETERS>(call.image).flags & rm::NVOS64_FLAGS_FINN_SERIALIZED) != 0) {
    return rm::NV_ERR_LIB_RM_VERSION_MISMATCH;
  }
  const rm::ClassRow* row = rm::FindClass(call.command);
  if (row != nullptr && row->params == rm::ClassParams::kRequired &&
      AllocParameters(call) == nullptr && row->Size(container.abi.branch) != 0) {
    return rm::NV_ERR_INVALID_ARGUMENT;
  }
  if (call.copy_in != rm::NV_OK) {
    return call.copy_in;
  }
  return rm::ClassKnown(container.abi, call.command) ? rm::NV_OK : rm::NV_ERR_INVALID_CLASS;
}

Decision RefuseClass(Container& container, Call& call, std::uint32_t status) {
  return container.Answer(call, status, ReasonOf(WhyClass(call.command)),
                          ClassName(call.command) + ": " + std::string(WhyClass(call.command)));
}

// Gives a device an address space of its own. A device without parameters, or whose parameters name
// no client, is attached to the GPU's global address space (device_share.c), where containers would
// read and write what others have mapped. Its own client's handle gives it one of its own, as
// libcuda asks for it.
Decision DecideDevice(Container& container, Call& call, Decision decision) {
  const Bytes* params = AllocParameters(call);
  auto device = params != nullptr ? Load<rm::NV0080_ALLOC_PARAMETERS>(*params)
                                  : rm::NV0080_ALLOC_PARAMETERS{};
  const auto gpu = container.GpuOfInstance(device.deviceId);
  if (!gpu) {  // answered as for a GPU that is not there (device.c)
    const auto handle = Load<rm::NVOS21_PARAMETERS>(call.image).hObjectNew;
    const bool taken = handle != 0 && container.ledger.Find(decision.client, handle).has_value();
    return container.Answer(call,
                            taken ? rm::NV_ERR_INSERT_DUPLICATE_NAME : rm::NV_ERR_INVALID_CLASS,
                            Reason::kGpuNotGranted, "a device of another card");
  }
  decision = Reserve(container, call, std::move(decision), ledger::Kind::kOther, 0);
  decision.gpu = gpu;
  decision.effects.opens_gpu = true;
  decision.own_share = decision.action == Decision::Action::kExecute && device.hClientShare == 0;
  if (decision.own_share) {
    device.hClientShare = call.client;
    if (params == nullptr) {
      call.pointers[0].target = static_cast<int>(call.nested.size());
      call.nested.push_back({0, Bytes(sizeof(device)), /*copy_out=*/false});
    }
    Store(GivenParameters(call), device);
  }
  return decision;
}

// Clears prohibitMultipleInstances (nvos.h), which keeps all others on the GPU off the engine. It
// lies at the same place for decoders, encoders, JPEG and optical flow.
Decision DecideVideoEngine(Container& container, Call& call, Decision decision) {
  decision = Reserve(container, call, std::move(decision), ledger::Kind::kOther, 0);
  if (const Bytes* params = AllocParameters(call);
      params != nullptr && decision.action == Decision::Action::kExecute) {
    decision.given_flags = Load<std::uint32_t>(*params, rm::kProhibitMultipleInstances);
    Store(GivenParameters(call), std::uint32_t{0}, rm::kProhibitMultipleInstances);
  }
  return decision;
}

// Allows an address space of the container's own. The others are the GPU's, shared by all clients
// that name them (vaspace_api.c).
Decision DecideAddressSpace(Container& container, Call& call, Decision decision,
                            const ledger::ObjectInfo& parent) {
  const Bytes* params = AllocParameters(call);
  const auto index = params != nullptr ? Load<std::uint32_t>(*params) : 0;
  if (index != rm::NV_VASPACE_ALLOCATION_INDEX_GPU_NEW &&
      index != rm::NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kNotAllowed,
                            "an address space of the whole card");
  }
  const std::uint64_t bytes = parent.gpu ? container.gpus[*parent.gpu].sizes.space_bytes : 0;
  return Reserve(container, call, std::move(decision),
                 bytes > 0 ? ledger::Kind::kMemory : ledger::Kind::kOther, bytes);
}

// Charges a channel group or a channel. The driver gives a channel outside of a group a group of
// its own.
Decision DecideChannel(Container& container, Call& call, Decision decision,
                       const ledger::ObjectInfo& parent) {
  const bool group = FindClassRule(call.command)->effect == ClassEffect::kChannelGroup;
  const auto in_group = FindClassRule(parent.cls);
  const bool pays = group || in_group == nullptr || in_group->effect != ClassEffect::kChannelGroup;
  const std::uint64_t bytes =
      pays && parent.gpu ? container.gpus[*parent.gpu].sizes.context_bytes : 0;
  const auto kind = group  ? ledger::Kind::kChannelGroup
                    : pays ? ledger::Kind::kLoneChannel
                           : ledger::Kind::kChannel;
  return Reserve(container, call, std::move(decision), kind, bytes);
}

// Returns the memory that an object of the class `cls` names.
std::array<std::uint32_t, 2> MemoryOf(std::uint32_t cls, const Bytes& params) {
  const auto at = [&params](std::size_t offset) { return Load<std::uint32_t>(params, offset); };
  if (cls == rm::NVENC_SW_SESSION) {
    // hMem counts in this version alone (nvencsession.c nvencsessionConstruct_IMPL()).
    const auto session = Load<rm::NVA0BC_ALLOC_PARAMETERS>(params);
    return {session.version == rm::NVA0BC_ALLOC_PARAMS_VER_1 ? session.hMem : 0, 0};
  }
  // NV_MEMORY_MAPPER_ALLOCATION_PARAMS {hSemaphoreSurface, maxQueueSize, hNotificationMemory}
  // NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS {hSemaphoreMem, hMaxSubmittedMem, flags}
  return {at(0), at(cls == rm::NV_MEMORY_MAPPER ? 8 : 4)};
}

Decision DecideHostMemory(Container& container, Call& call, Decision decision,
                          const Bytes* params) {
  const bool mapper = call.command == rm::NV_MEMORY_MAPPER;
  for (const std::uint32_t handle : MemoryOf(call.command, params != nullptr ? *params : Bytes{})) {
    if (handle != 0 && !IsOwnHostMemory(container, decision.client, handle)) {
      return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                              ClassName(call.command) + " on a card");
    }
  }
  // A mapper's queue is an array in the kernel's memory (mem_mapper.c memmapperConstruct()).
  if (mapper && params != nullptr && Load<std::uint32_t>(*params, 4) > kMaxMapperQueue) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            ClassName(call.command) + " with a queue over the quota");
  }
  // Mappers and encoder sessions have the quota of debuggers: a program has few or none.
  const bool few = mapper || call.command == rm::NVENC_SW_SESSION;
  return Reserve(container, call, std::move(decision),
                 few ? ledger::Kind::kDebugger : ledger::Kind::kOther, 0);
}

// Returns the memory, or the context DMAs, that the driver or the GPU writes to for an object of
// this class. 0: none.
std::vector<std::uint32_t> WrittenBy(const Call& call, rm::Branch branch, const Bytes& params) {
  if (call.command == rm::NV01_CONTEXT_DMA) {
    return {Load<rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS>(params).hMemory};
  }
  const ClassEffect effect = FindClassRule(call.command)->effect;
  if (effect == ClassEffect::kChannelGroup) {
    // Used by its channels that name none (kernel_channel.c).
    const auto group = Load<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(params);
    return {group.hObjectError, group.hObjectEccError};
  }
  if (effect == ClassEffect::kChannel) {
    const auto kept = rm::KeptByChannel(branch, params);
    return {kept.begin(), kept.end()};
  }
  return {};
}

// Returns the objects whose end is also that of an object of this class (refAddDependant() in
// kernel_channel.c, kernel_ctxshare.c and kernel_channel_group_api.c). 0: none.
std::vector<std::uint32_t> DependenciesOf(const Call& call, rm::Branch branch,
                                          const Bytes& params) {
  if (call.command == rm::FERMI_CONTEXT_SHARE_A) {
    return {Load<rm::NV_CTXSHARE_ALLOCATION_PARAMETERS>(params).hVASpace};
  }
  if (call.command == rm::NV01_CONTEXT_DMA) {
    return {Load<rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS>(params).hMemory};
  }
  const ClassEffect effect = FindClassRule(call.command)->effect;
  if (effect == ClassEffect::kChannelGroup) {
    return {Load<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(params).hVASpace};
  }
  if (effect == ClassEffect::kChannel) {
    const rm::ChannelParams channel = rm::ReadChannelParams(branch, params);
    return {channel.hVASpace, channel.hContextShare};
  }
  return {};
}

std::uint32_t SpaceOfRange(const Call& call) {
  const Bytes* params = AllocParameters(call);
  if (params == nullptr) {
    return 0;
  }
  return call.command == rm::NV01_MEMORY_VIRTUAL
             ? Load<rm::NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS>(*params).hVASpace
             : Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*params).hVASpace;
}

// Returns true for a channel in a group that names an address space, and for one outside of a group
// that names a context share. The driver takes neither (kernel_channel.c kchannelConstruct_IMPL()).
bool NamesSpaceOfOtherKind(const Container& container, const Call& call, const Decision& decision,
                           const Bytes& params) {
  if (FindClassRule(call.command)->effect != ClassEffect::kChannel) {
    return false;
  }
  const rm::ChannelParams channel = rm::ReadChannelParams(container.abi.branch, params);
  const auto parent = container.ledger.Find(decision.client, call.object);
  const bool in_group = parent && parent->cls == rm::KEPLER_CHANNEL_GROUP_A;
  return (in_group ? channel.hVASpace : channel.hContextShare) != 0;
}

// Refuses an object if the driver or the GPU would write to memory that all tenants share, or that
// the ledger does not know: that could be freed under the writer. Refuses it, too, if it depends on
// what the ledger does not know.
std::optional<Decision> RefuseNamed(Container& container, Call& call, const Decision& decision,
                                    const Bytes* params) {
  if (params == nullptr) {
    return std::nullopt;
  }
  if (NamesSpaceOfOtherKind(container, call, decision, *params)) {
    return container.Answer(
        call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
        ClassName(call.command) + " with an address space in a group, or a context share outside");
  }
  std::vector<std::uint32_t> written = WrittenBy(call, container.abi.branch, *params);
  if (FindClassRule(call.command)->effect == ClassEffect::kChannel) {
    // The driver looks for a group's memory when a channel of it is made (kernel_channel.c).
    const auto of_group = container.ledger.KeptBy(decision.client, call.object);
    written.insert(written.end(), of_group.begin(), of_group.end());
  }
  for (const std::uint32_t handle : written) {
    if (handle != 0 && !container.ledger.Find(decision.client, handle)) {
      return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, Reason::kInvalid,
                              ClassName(call.command) + " that writes to unknown memory");
    }
    if (NamesSharedMemory(container, decision.client, handle)) {
      return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, Reason::kNotAllowed,
                              ClassName(call.command) + " that writes to the driver's page");
    }
  }
  for (const std::uint32_t handle : DependenciesOf(call, container.abi.branch, *params)) {
    if (handle != 0 && !container.ledger.Find(decision.client, handle)) {
      return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                              ClassName(call.command) + " on an unknown object");
    }
  }
  std::vector<std::uint32_t> spaces = DependenciesOf(call, container.abi.branch, *params);
  if (IsRangeClass(call.command)) {
    spaces.push_back(SpaceOfRange(call));
  }
  const auto gpu = container.ledger.GpuOf(decision.client, call.object);
  for (const std::uint32_t space : spaces) {
    if (IsSpaceOfOtherGpu(container, decision.client, space, gpu)) {
      return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_HANDLE, Reason::kInvalid,
                              ClassName(call.command) + " in an address space of another card");
    }
  }
  return std::nullopt;
}

// Makes the driver's page without the figures that the driver would poll for it
// (gpu_user_shared_data.c): they are of the whole GPU. The mask has 8 bytes, or 4.
Decision DecideSharedPage(Container& container, Call& call, Decision decision) {
  decision = Reserve(container, call, std::move(decision), ledger::Kind::kOther, 0);
  if (AllocParameters(call) != nullptr && decision.action == Decision::Action::kExecute) {
    Bytes& mask = GivenParameters(call);
    std::memcpy(&decision.given_flags, mask.data(),
                std::min(mask.size(), sizeof(decision.given_flags)));
    std::ranges::fill(mask, std::byte{0});
  }
  return decision;
}

// Returns the GPU engine of a channel group, or of a channel that gets a group of its own. No
// engine stands for graphics (kernel_channel_group_api.c).
std::uint32_t EngineOf(const Call& call, rm::Branch branch) {
  const Bytes* params = AllocParameters(call);
  const ClassRule* rule = FindClassRule(call.command);
  if (params == nullptr || rule == nullptr) {
    return rm::NV2080_ENGINE_TYPE_NULL;
  }
  std::uint32_t engine = rm::NV2080_ENGINE_TYPE_NULL;
  if (rule->effect == ClassEffect::kChannelGroup) {
    engine = Load<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(*params).engineType;
  } else if (rule->effect == ClassEffect::kChannel) {
    engine = rm::ReadChannelParams(branch, *params).engineType;
  } else {
    return engine;
  }
  return engine == rm::NV2080_ENGINE_TYPE_NULL ? rm::NV2080_ENGINE_TYPE_GRAPHICS : engine;
}

// Adds what an object depends on and what it keeps.
void AddDependencies(Container& container, const Call& call, ledger::ClientRef client,
                     std::uint32_t handle) {
  const Bytes* params = AllocParameters(call);
  if (params == nullptr) {
    return;
  }
  for (const std::uint32_t on : DependenciesOf(call, container.abi.branch, *params)) {
    if (on != 0) {
      (void)container.ledger.AddDependency(client, handle, on).ok();  // it is gone by now: then so
                                                                      // is this one
    }
  }
  if (call.command == rm::NV01_CONTEXT_DMA) {
    return;
  }
  // The driver keeps a pointer to the object without keeping the object: once that is freed, it
  // writes to whatever lies there by then.
  const auto keeps = [&](std::uint32_t kept) {
    if (kept != 0) {
      (void)container.ledger.AddKeeper(client, handle, kept)
          .ok();  // it is gone by now: it uses nothing
    }
  };
  if (call.command == rm::NVENC_SW_SESSION) {  // nvencsession.c nvencsessionConstruct_IMPL()
    keeps(MemoryOf(call.command, *params)[0]);
    return;
  }
  for (const std::uint32_t kept : WrittenBy(call, container.abi.branch, *params)) {
    keeps(kept);
  }
}

}  // namespace

// Accepts only events on a GPU's file, as the driver does (escape.c, NV_ACTUAL_DEVICE_ONLY).
bool AcceptsAlloc(const Call& call) {
  if (call.file.kind != FileKind::kGpu) {
    return true;
  }
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

void DecodeAlloc(const rm::Abi& abi, TenantMemory& memory, Call& call) {
  // NVOS21 and NVOS64 agree up to pAllocParms; NVOS64 alone has pRightsRequested.
  const auto head = Load<rm::NVOS21_PARAMETERS>(call.image);
  call.client = head.hRoot;
  call.object = head.hObjectParent;
  call.command = head.hClass;
  ReadNested(memory, call, rm::ClassParamSize(abi, head.hClass),
             offsetof(rm::NVOS21_PARAMETERS, pAllocParms));
  if (call.image.size() == sizeof(rm::NVOS64_PARAMETERS)) {
    constexpr std::size_t kAccessMaskSize =
        4;  // RS_ACCESS_MASK, src/common/sdk/nvidia/inc/rs_access.h
    ReadNested(memory, call, kAccessMaskSize, offsetof(rm::NVOS64_PARAMETERS, pRightsRequested),
               /*copy_out=*/false);
  }
}

std::vector<std::uint32_t> ClientsOfAlloc(const Call& call) {
  std::vector<std::uint32_t> clients;
  if (IsClientClass(call.command)) {
    clients.push_back(kAnyClient);  // the driver picks the handle, perhaps one just freed
  }
  if (call.client != 0) {
    clients.push_back(call.client);
  }
  return clients;
}

const Bytes* AllocParameters(const Call& call) {
  const int target = call.pointers[0].target;
  return target < 0 ? nullptr : &call.nested[static_cast<std::size_t>(target)].bytes;
}

std::optional<Decision> DecideAllocEarly(Container& container, Call& call) {
  if (const auto status = FaultOfAlloc(container, call); status != rm::NV_OK) {
    return container.Answer(call, status, Reason::kInvalid, "RM_ALLOC with wrong parameters");
  }
  if (container.ledger.CountOf(call.command) >= MostOf(call.command)) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            ClassName(call.command) + " over the quota");
  }
  return IsClientClass(call.command) ? std::optional(DecideClient(container, call)) : std::nullopt;
}

Decision DecideAlloc(Container& container, Call& call, Decision decision) {
  const ClassRule* rule = FindClassRule(call.command);
  if (rule == nullptr || rule->effect == ClassEffect::kRefuse) {
    return RefuseClass(container, call, rm::NV_ERR_INVALID_CLASS);
  }
  const auto parent = container.ledger.Find(decision.client, call.object);
  if (!parent) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "RM_ALLOC below an unknown object");
  }
  decision.object = parent->ref;
  const Bytes* params = AllocParameters(call);
  if (!OwnsClientsIn(container, call.command, params)) {
    return container.Answer(call, NoSuchClient(call), Reason::kInvalid,
                            ClassName(call.command) + " with a foreign client");
  }
  if (auto refused = RefuseNamed(container, call, decision, params)) {
    return *std::move(refused);
  }
  switch (rule->effect) {
    case ClassEffect::kSharedPage:
      return DecideSharedPage(container, call, std::move(decision));
    case ClassEffect::kPlain:
      return Reserve(container, call, std::move(decision), ledger::Kind::kOther, 0);
    case ClassEffect::kVideoEngine:
      return DecideVideoEngine(container, call, std::move(decision));
    case ClassEffect::kDevice:
      return DecideDevice(container, call, std::move(decision));
    case ClassEffect::kVidmem: {
      if (params == nullptr) {
        return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                                "memory without parameters");
      }
      const auto memory = Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*params);
      return Reserve(container, call, std::move(decision), ledger::Kind::kMemory,
                     rm::RoundVidmem(
                         {memory.size, memory.attr, memory.attr2, memory.flags, memory.alignment}));
    }
    case ClassEffect::kDebugger:
      // The driver makes a client of its own for each (kernel_sm_debugger_session.c), so they have
      // a quota.
      return Reserve(container, call, std::move(decision), ledger::Kind::kDebugger, 0);
    case ClassEffect::kAddressSpace:
      return DecideAddressSpace(container, call, std::move(decision), *parent);
    case ClassEffect::kInterval: {
      const auto memory = params != nullptr ? Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*params)
                                            : rm::NV_MEMORY_ALLOCATION_PARAMS{};
      return ReserveInterval(container, call, std::move(decision), memory.size, memory.flags,
                             memory.attr);
    }
    case ClassEffect::kHostMemory:
      return DecideHostMemory(container, call, std::move(decision), params);
    case ClassEffect::kUnsupported:
    case ClassEffect::kRefuse:
      return RefuseClass(container, call, rm::NV_ERR_NOT_SUPPORTED);
    case ClassEffect::kChannelGroup:
    case ClassEffect::kChannel:
      return DecideChannel(container, call, std::move(decision), *parent);
  }
  return container.Fail(EINVAL, Reason::kNotAllowed, ClassName(call.command));
}

// Restores the fields that DecideDevice(), DecideVideoEngine() and DecideSharedPage() changed.
void SettleAlloc(Container& /*container*/, Call& call, const Decision& decision,
                 const Outcome& /*outcome*/) {
  if (decision.own_share) {
    Store(GivenParameters(call), std::uint32_t{0},
          offsetof(rm::NV0080_ALLOC_PARAMETERS, hClientShare));
  }
  if (decision.given_flags != 0 && call.command == rm::RM_USER_SHARED_DATA) {
    Bytes& mask = GivenParameters(call);
    std::memcpy(mask.data(), &decision.given_flags,
                std::min(mask.size(), sizeof(decision.given_flags)));
  } else if (decision.given_flags != 0) {
    Store(GivenParameters(call), static_cast<std::uint32_t>(decision.given_flags),
          rm::kProhibitMultipleInstances);
  }
}

std::optional<Undo> AccountAlloc(Container& container, Call& call, Decision& decision) {
  const auto head = Load<rm::NVOS21_PARAMETERS>(call.image);
  if (IsClientClass(call.command)) {
    const auto added = container.ledger.AddClient(decision.reservation, head.hObjectNew,
                                                  kClientsFile, call.process);
    if (!added.ok()) {
      return Undo{head.hObjectNew, head.hObjectNew};
    }
    decision.client = *added;
    return std::nullopt;
  }
  const bool vidmem = FindClassRule(call.command)->effect == ClassEffect::kVidmem;
  const auto memory = vidmem ? Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*AllocParameters(call))
                             : rm::NV_MEMORY_ALLOCATION_PARAMS{};
  const auto undo = AddMade(
      container, call, decision,
      {.handle = head.hObjectNew,
       .cls = head.hClass,
       .bytes = memory.size,
       .page_bytes = vidmem ? rm::VidmemPageSize(memory.size, memory.attr, memory.attr2) : 0,
       .engine = EngineOf(call, container.abi.branch)});
  if (!undo) {
    AddDependencies(container, call, decision.client, head.hObjectNew);
    if (IsRangeClass(call.command)) {
      AddRange(container, decision.client, head.hObjectNew, SpaceOfRange(call), decision.tables);
    }
  }
  return undo;
}

}  // namespace cgpu::boundary
