// RM_DUP_OBJECT: duplicates an object, perhaps of another client.
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "boundary/policy.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

void DecodeDup(const rm::Abi& /*abi*/, TenantMemory& /*memory*/, Call& call) {
  const auto dup = Load<rm::NVOS55_PARAMETERS>(call.image);
  call.client = dup.hClient;
  call.object = dup.hParent;
  call.source_client = dup.hClientSrc;
}

std::vector<std::uint32_t> ClientsOfDup(const Call& call) {
  if (call.client == 0) {
    return {};
  }
  std::vector<std::uint32_t> clients{call.client};
  if (call.source_client != 0 && call.source_client != call.client) {
    clients.push_back(call.source_client);
  }
  return clients;
}

Decision DecideDup(Container& container, Call& call, Decision decision) {
  const auto dup = Load<rm::NVOS55_PARAMETERS>(call.image);
  const auto source = container.ledger.FindClient(dup.hClientSrc);
  if (!source) {
    return container.Answer(call, NoSuchClient(call), Reason::kInvalid,
                            "RM_DUP_OBJECT of a foreign client");
  }
  const auto parent = container.ledger.Find(decision.client, dup.hParent);
  const auto object = container.ledger.Find(source->ref, dup.hObjectSrc);
  if (!parent || !object) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "RM_DUP_OBJECT of an unknown object");
  }
  if (IsSharedMemory(object->cls)) {
    return container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                            "RM_DUP_OBJECT of " + ClassName(object->cls));
  }
  if (IsSpaceOfOtherGpu(container, source->ref, dup.hObjectSrc, parent->gpu)) {
    return container.Answer(call, rm::NV_ERR_INVALID_OBJECT_PARENT, Reason::kInvalid,
                            "RM_DUP_OBJECT of an address space below another card");
  }
  decision.object = parent->ref;
  auto reservation = container.ledger.ReserveDup(source->ref, object->ref);
  if (!reservation.ok()) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            "objects over a quota");
  }
  decision.reservation = std::move(*reservation);
  return decision;
}

std::optional<Undo> AccountDup(Container& container, Call& call, Decision& decision) {
  return AddCopy(container, decision, decision.reservation,
                 Load<rm::NVOS55_PARAMETERS>(call.image).hObject);
}

}  // namespace cgpu::boundary
