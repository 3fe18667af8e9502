// RM_FREE: frees an object, and what lies below it.
#include <utility>

#include "boundary/calls/steps.h"
#include "boundary/objects.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

void DecodeFree(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  const auto free = Load<rm::NVOS00_PARAMETERS>(call.image);
  call.client = free.hRoot;
  call.object = free.hObjectOld;
}

std::vector<std::uint32_t> ClientsOfFree(const Call& call) {
  std::vector<std::uint32_t> clients;
  if (call.object == call.client) {
    clients.push_back(kAnyClient);  // a call that makes a client may get the handle
  }
  if (call.client != 0) {
    clients.push_back(call.client);
  }
  return clients;
}

Decision DecideFree(Container& container, Call& call, Decision decision) {
  decision.effects.frees_objects = true;
  return DecideFreeing(container, call, std::move(decision), call.object);
}

// Refuses to free memory that a channel uses. The driver would free a channel's error notifiers or
// USERD and go on writing there.
Decision DecideFreeing(Container& container, Call& call, Decision decision, std::uint32_t handle) {
  if (container.ledger.IsKept(decision.client, handle)) {
    return container.Answer(
        call, rm::NV_ERR_STATE_IN_USE, Reason::kNotAllowed,
        "RM_FREE of memory that a channel or an encoder session uses: free that first");
  }
  const auto object = container.ledger.Look(decision.client, handle);
  decision.object = object ? object->ref : ledger::ObjectRef();  // not the parent of a heap's call
  return decision;
}

std::optional<Undo> AccountFree(Container& container, Call& /*call*/, Decision& decision) {
  FreeObject(container, decision.client, decision.object);
  return std::nullopt;
}

}  // namespace cgpu::boundary
