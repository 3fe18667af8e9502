// Limits what the driver keeps in the kernel's memory, or in lists that it walks under its locks,
// as long as a client lives. No cgroup is charged for any of it, so each kind has a quota here.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "boundary/boundary.h"
#include "boundary/names.h"
#include "boundary/quotas.h"
#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

bool Boundary::Lives(ledger::ClientRef client) const {
  const auto found = ledger_.FindClient(client.handle);
  return found && found->ref == client;
}

// Adds an entry before the driver is asked: it makes the entry before it checks the rest. Returns
// false at the quota. Entries of clients that are gone are gone with them.
bool Boundary::AddEntry(ledger::ClientRef client) {
  const auto sum = [this] {
    return std::accumulate(
        entries_.begin(), entries_.end(), std::uint64_t{0},
        [](std::uint64_t all, const auto& one) { return all + one.second.count; });
  };
  if (sum() >= kMaxEntries) {
    std::erase_if(entries_,
                  [this](const auto& one) { return !Lives({one.first, one.second.serial}); });
    if (sum() >= kMaxEntries) {
      return false;
    }
  }
  Entries& entries = entries_[client.handle];
  if (entries.serial != client.serial) {
    entries = {client.serial, 0};
  }
  ++entries.count;
  return true;
}

// Counts a share. Each call with a client adds a reference to that client's list, even if it is the
// same as the last one or takes rights away (rs_client.c clientAddAccessBackRef()). The policies
// themselves are merged (rs_access_map.c rsShareListInsert()), so those of the other types are few.
// But a policy with REQUIRE stays in the object's list after its client is gone: the end of that
// client takes back only policies without REQUIRE (clientFreeAccessBackRefs()).
bool Boundary::AddShare(ledger::ClientRef owner, const rm::RS_SHARE_POLICY& policy) {
  const auto target = ledger_.FindClient(policy.target);
  const bool stays = (policy.action & rm::RS_SHARE_ACTION_FLAG_REQUIRE) != 0;
  return target && AddEntry(target->ref) && (!stays || AddEntry(owner));
}

// Counts an event. The driver looks for an event by its client and number in one list of all users
// of the host, and has each only once (osapi.c allocate_os_event()). The number is one of the
// program's descriptors, but only a name to the driver, so any number works. A client's events end
// with it, and those made on a file with the file. Which file that was is not kept: a program has
// few numbers, and an event that it makes again under the same number is no other event here.
Decision Boundary::DecideAllocOsEvent(Call& call, Decision decision) {
  const auto params = Load<rm::nv_ioctl_alloc_os_event_t>(call.image);
  const std::pair name(params.hClient, params.fd);
  if (!os_events_.contains(name) && os_events_.size() >= kMaxOsEvents) {
    std::erase_if(os_events_,
                  [this](const auto& one) { return !Lives({one.first.first, one.second}); });
    if (os_events_.size() >= kMaxOsEvents) {
      return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, "events of the system over the bound");
    }
  }
  // If the driver refuses it, it exists already, or its place is kept until it is freed.
  os_events_[name] = decision.client.serial;
  return decision;
}

void Boundary::ForgetOsEvent(const Call& call) {
  const auto params = Load<rm::nv_ioctl_free_os_event_t>(call.image);
  os_events_.erase({params.hClient, params.fd});
}

namespace {

// Returns the memory that an object of the class `cls` keeps.
std::array<std::uint32_t, 2> KeptBy(std::uint32_t cls, const Bytes& params) {
  const auto at = [&params](std::size_t offset) { return Load<std::uint32_t>(params, offset); };
  if (cls == rm::NVENC_SW_SESSION) {
    const auto session = Load<rm::NVA0BC_ALLOC_PARAMETERS>(params);
    return {session.version == rm::NVA0BC_ALLOC_PARAMS_VER_1 ? session.hMem : 0, 0};
  }
  // NV_MEMORY_MAPPER_ALLOCATION_PARAMS {hSemaphoreSurface, maxQueueSize, hNotificationMemory}
  // NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS {hSemaphoreMem, hMaxSubmittedMem, flags}
  return {at(0), at(cls == rm::NV_MEMORY_MAPPER ? 8 : 4)};
}

}  // namespace

Decision Boundary::DecideHostMemory(Call& call, Decision decision, const Bytes* params) {
  const bool mapper = call.command == rm::NV_MEMORY_MAPPER;
  for (const std::uint32_t handle : KeptBy(call.command, params != nullptr ? *params : Bytes{})) {
    const auto memory = ledger_.Find(decision.client, handle);
    if (handle != 0 && (!memory || memory->holders != 0)) {
      return Answer(call, rm::NV_ERR_NOT_SUPPORTED, ClassName(call.command) + " on a card");
    }
  }
  // A mapper's queue is an array in the kernel's memory (mem_mapper.c memmapperConstruct()).
  if (mapper && params != nullptr && Load<std::uint32_t>(*params, 4) > kMaxMapperQueue) {
    return Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES,
                  ClassName(call.command) + " with a queue over the bound");
  }
  // Mappers and encoder sessions have the quota of debuggers: a program has few or none.
  const bool few = mapper || call.command == rm::NVENC_SW_SESSION;
  return Reserve(call, std::move(decision), few ? ledger::Kind::kDebugger : ledger::Kind::kOther,
                 0);
}

}  // namespace cgpu::boundary
