// Updates the ledger after a call that the driver has executed.
#include <algorithm>
#include <utility>

#include "boundary/boundary.h"
#include "boundary/policy.h"
#include "rm/channel_params.h"
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

// Stands for a client's file. Which of the tenant's files a client lies on is not kept, because the
// driver itself says when the client is gone.
constexpr ledger::FileKey kClientsFile = 1;

// Returns the GPU engine of a channel group, or of a channel that gets a group of its own. No
// engine stands for graphics (kernel_channel_group_api.c).
std::uint32_t EngineOf(const Call& call, rm::Branch branch) {
  if (call.nr != rm::NV_ESC_RM_ALLOC) {
    return rm::NV2080_ENGINE_TYPE_NULL;
  }
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

}  // namespace

std::optional<Undo> Boundary::Account(Call& call, Decision& decision, int error) {
  const auto status = StatusOf(call);
  if (call.uvm_request != 0) {
    AccountUvm(call, decision, error == 0 && status == rm::NV_OK);
    return std::nullopt;
  }
  const bool done = error == 0 && (!status || *status == rm::NV_OK);
  RestoreGiven(call, decision);
  if (call.nr == rm::NV_ESC_FREE_OS_EVENT && error == 0) {
    ForgetOsEvent(call);  // if the driver did not find it, it does not exist here either
  }
  if (call.nr == rm::NV_ESC_RM_MAP_MEMORY_DMA) {
    AccountMapDma(call, decision, done);
    return std::nullopt;
  }
  if (!done) {
    ledger_.Cancel(decision.reservation);
    for (Transfer& transfer : decision.transfers) {
      ledger_.Cancel(transfer.reservation);
    }
    RestoreEmptyImports(call, decision);
    if (call.nr == rm::NV_ESC_RM_CONTROL && call.command == rm::GSS_LEGACY_8163_TAKE_ENCODER) {
      GiveBackEncoder(decision);
    }
    return std::nullopt;
  }
  switch (call.nr) {
    case rm::NV_ESC_RM_ALLOC:
      return AccountAlloc(call, decision);
    case rm::NV_ESC_RM_ALLOC_MEMORY:
      return AccountAllocMemory(call, decision);
    case rm::NV_ESC_RM_ALLOC_CONTEXT_DMA2:
      return AccountAllocContextDma(call, decision);
    case rm::NV_ESC_RM_DUP_OBJECT:
      return AccountCopy(decision, decision.reservation,
                         Load<rm::NVOS55_PARAMETERS>(call.image).hObject);
    case rm::NV_ESC_RM_FREE:
      FreeObject(decision.client, decision.object);
      return std::nullopt;
    case rm::NV_ESC_RM_UNMAP_MEMORY_DMA:
      AccountUnmapDma(call, decision);
      return std::nullopt;
    case rm::NV_ESC_RM_VID_HEAP_CONTROL:
      return AccountVidHeap(call, decision);
    case rm::NV_ESC_RM_CONTROL:
      return AccountControl(call, decision);
    case rm::NV_ESC_CARD_INFO:
      RewriteCardInfo(call);
      return std::nullopt;
    case rm::NV_ESC_RM_GET_EVENT_DATA:
      HideErrors(call);
      return std::nullopt;
    case rm::NV_ESC_RM_MAP_MEMORY:
      AccountMapMemory(call, decision);
      return std::nullopt;
    case rm::NV_ESC_RM_UNMAP_MEMORY:
      AccountUnmapMemory(call, decision);
      return std::nullopt;
    case rm::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
      AccountMovedMapping(call, decision);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<Undo> Boundary::AccountNew(Call& call, Decision& decision, std::uint32_t handle,
                                         std::uint32_t cls, std::uint64_t bytes,
                                         std::uint64_t page_bytes) {
  ledger::NewObject object;
  object.page_bytes = page_bytes;
  object.parent = decision.object;
  object.handle = handle;
  object.cls = cls;
  // The driver takes what was reserved; the size that it reports can be smaller, never larger.
  object.actual_bytes = std::max(bytes, decision.bytes);
  if (const ClassRule* rule = FindClassRule(cls);
      rule != nullptr && rule->effect == ClassEffect::kDevice) {
    object.card = decision.card;
  }
  object.engine = EngineOf(call, abi_.branch);
  auto added = ledger_.AddObject(decision.reservation, decision.client, object);
  if (!added.ok() && added.error().code == Code::kConflict) {
    // The driver has just accepted this handle, so the ledger's object under it is gone.
    FreeObject(decision.client, {handle, 0});
    added = ledger_.AddObject(decision.reservation, decision.client, object);
  }
  if (added.ok()) {
    return std::nullopt;
  }
  // If a client or parent is gone the object is gone too; freeing it then fails harmlessly.
  SetStatus(call, rm::NV_ERR_NO_MEMORY);
  return Undo{decision.client.handle, handle};
}

void Boundary::Undone(Call& call, Decision& decision) {
  CountRefused("memory beyond the reservation");
  ledger_.CountDenial(decision.card.value_or(0));
  SetStatus(call, rm::NV_ERR_NO_MEMORY);
  ledger_.Cancel(decision.reservation);
}

std::optional<Undo> Boundary::AccountAlloc(Call& call, Decision& decision) {
  const auto head = Load<rm::NVOS21_PARAMETERS>(call.image);
  if (IsClientClass(call.command)) {
    const auto added =
        ledger_.AddClient(decision.reservation, head.hObjectNew, kClientsFile, call.process);
    return added.ok() ? std::nullopt : std::optional(Undo{head.hObjectNew, head.hObjectNew});
  }
  const bool vidmem = FindClassRule(call.command)->effect == ClassEffect::kVidmem;
  const auto memory = vidmem ? Load<rm::NV_MEMORY_ALLOCATION_PARAMS>(*AllocParameters(call))
                             : rm::NV_MEMORY_ALLOCATION_PARAMS{};
  const auto undo =
      AccountNew(call, decision, head.hObjectNew, head.hClass, memory.size,
                 vidmem ? rm::VidmemPageSize(memory.size, memory.attr, memory.attr2) : 0);
  if (!undo) {
    AddDependencies(call, decision.client, head.hObjectNew);
    if (IsRangeClass(call.command)) {
      AddRange(decision.client, head.hObjectNew, SpaceOfRange(call), decision.covered);
    }
  }
  return undo;
}

// Adds the dependencies of an object: the driver frees it with an object that its parameters name
// (refAddDependant() in kernel_channel.c, kernel_ctxshare.c and kernel_channel_group_api.c).
void Boundary::AddDependencies(const Call& call, ledger::ClientRef client, std::uint32_t handle) {
  const Bytes* params = AllocParameters(call);
  if (params == nullptr) {
    return;
  }
  const auto depends_on = [&](std::uint32_t on) {
    if (on != 0) {
      (void)ledger_.AddDependency(client, handle, on).ok();  // it is gone by now: then so is this
                                                             // one
    }
  };
  if (call.command == rm::FERMI_CONTEXT_SHARE_A) {
    depends_on(Load<rm::NV_CTXSHARE_ALLOCATION_PARAMETERS>(*params).hVASpace);
    return;
  }
  if (call.command == rm::NV01_CONTEXT_DMA) {
    depends_on(Load<rm::NV_CONTEXT_DMA_ALLOCATION_PARAMS>(*params).hMemory);
    return;
  }
  // The driver keeps a pointer to the object without keeping the object: once that is freed, it
  // writes to whatever lies there by then.
  const auto keeps = [&](std::uint32_t kept) {
    if (kept != 0) {
      (void)ledger_.AddKeeper(client, handle, kept).ok();  // it is gone by now: it uses nothing
    }
  };
  if (call.command == rm::NVENC_SW_SESSION) {  // nvencsession.c nvencsessionConstruct_IMPL()
    const auto session = Load<rm::NVA0BC_ALLOC_PARAMETERS>(*params);
    keeps(session.version == rm::NVA0BC_ALLOC_PARAMS_VER_1 ? session.hMem : 0);
    return;
  }
  const ClassEffect effect = FindClassRule(call.command)->effect;
  if (effect == ClassEffect::kChannelGroup) {
    const auto group = Load<rm::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS>(*params);
    depends_on(group.hVASpace);
    keeps(group.hObjectError);  // used by its channels that name none (kernel_channel.c)
    keeps(group.hObjectEccError);
  } else if (effect == ClassEffect::kChannel) {
    const rm::ChannelParams channel = rm::ReadChannelParams(abi_.branch, *params);
    depends_on(channel.hVASpace);
    depends_on(channel.hContextShare);
    for (const std::uint32_t kept : rm::KeptByChannel(abi_.branch, *params)) {
      keeps(kept);
    }
  }
}

// Accounts for a duplicate or an import, under `handle`.
std::optional<Undo> Boundary::AccountCopy(const Decision& decision,
                                          ledger::Reservation& reservation, std::uint32_t handle) {
  auto added = ledger_.AddCopy(reservation, decision.client, decision.object, handle);
  if (!added.ok() && added.error().code == Code::kConflict) {
    FreeObject(decision.client, {handle, 0});
    added = ledger_.AddCopy(reservation, decision.client, decision.object, handle);
  }
  if (!added.ok()) {
    return Undo{decision.client.handle, handle};
  }
  if (const auto copy = ledger_.Find(decision.client, handle); copy && IsRangeClass(copy->cls)) {
    AddRange(decision.client, handle, std::nullopt, false);
  }
  return std::nullopt;
}

std::optional<Undo> Boundary::AccountVidHeap(Call& call, Decision& decision) {
  auto head = Load<rm::NVOS32_PARAMETERS>(call.image);
  switch (head.function) {
    case rm::NVOS32_FUNCTION_ALLOC_SIZE: {
      const auto& alloc = head.data.AllocSize;
      const std::uint32_t cls = VidHeapClass(alloc.flags, alloc.attr, alloc.attr2);
      const bool vidmem = cls == rm::NV01_MEMORY_LOCAL_USER;
      const auto undo =
          AccountNew(call, decision, alloc.hMemory, cls, vidmem ? alloc.size : 0,
                     vidmem ? rm::VidmemPageSize(alloc.size, alloc.attr, alloc.attr2) : 0);
      if (undo) {
        return undo;
      }
      if (IsRangeClass(cls)) {
        AddRange(decision.client, alloc.hMemory, head.hVASpace, decision.covered);
      }
      break;
    }
    case rm::NVOS32_FUNCTION_FREE:
      FreeObject(decision.client, decision.object);
      break;
    default:
      break;
  }
  // The heap's size, its free bytes, and where on the GPU that lies, which shows what neighbours
  // hold. The other functions show nothing of it.
  if (head.function == rm::NVOS32_FUNCTION_INFO && decision.card) {
    head = Load<rm::NVOS32_PARAMETERS>(call.image);
    const std::uint64_t limit = ledger_.Limit(*decision.card);
    head.total = limit;
    head.free = limit - std::min(limit, ledger_.Used(*decision.card));
    head.data.Info.size = std::min(head.data.Info.size, head.free);
    head.data.Info.offset = 0;
    head.data.Info.base = 0;
    Store(call.image, head);
  }
  return std::nullopt;
}

// Restores the fields that DecideDevice(), DecideVideoEngine(), DecideIdleChannels() and
// DecidePreemption() changed.
void Boundary::RestoreGiven(Call& call, const Decision& decision) {
  if (decision.own_share) {
    Store(call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes, std::uint32_t{0},
          offsetof(rm::NV0080_ALLOC_PARAMETERS, hClientShare));
  }
  if (call.nr == rm::NV_ESC_RM_ALLOC && decision.given_flags != 0) {
    Store(call.nested[static_cast<std::size_t>(call.pointers[0].target)].bytes,
          static_cast<std::uint32_t>(decision.given_flags), rm::kProhibitMultipleInstances);
  }
  if (call.nr == rm::NV_ESC_RM_IDLE_CHANNELS) {
    Store(call.image, static_cast<std::uint32_t>(decision.given_flags),
          offsetof(rm::NVOS30_PARAMETERS, timeout));
  }
  if (call.nr == rm::NV_ESC_RM_CONTROL &&
      call.command == rm::NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE) {
    Store(call.nested[0].bytes, static_cast<std::uint32_t>(decision.given_flags));
  }
}

std::optional<Undo> Boundary::AccountControl(Call& call, Decision& decision) {
  const ControlRule* rule = FindControlRule(call.command);
  switch (rule->effect) {
    case ControlEffect::kView:
      RewriteControl(call, decision);
      return std::nullopt;
    case ControlEffect::kExport:
    case ControlEffect::kImport:
    case ControlEffect::kExportMany:
    case ControlEffect::kImportMany:
      return AccountTransfer(call, decision, rule->effect);
    case ControlEffect::kGiveEncoder:
      GiveBackEncoder(decision);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace cgpu::boundary
