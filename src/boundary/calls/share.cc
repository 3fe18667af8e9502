// Shares objects: RM_SHARE, and the control that begins with the same policy.
#include <utility>

#include "boundary/calls/control_handler.h"
#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

// Counts a share. Each call with a client adds a reference to that client's list, even if it is the
// same as the last one or takes rights away (rs_client.c clientAddAccessBackRef()). The policies
// themselves are merged (rs_access_map.c rsShareListInsert()), so those of the other types are few.
// But a policy with REQUIRE stays in the object's list after its client is gone: the end of that
// client takes back only policies without REQUIRE (clientFreeAccessBackRefs()).
bool AddShare(Container& container, ledger::ClientRef owner, const rm::RS_SHARE_POLICY& policy) {
  const auto target = container.ledger.FindClient(policy.target);
  const bool stays = (policy.action & rm::RS_SHARE_ACTION_FLAG_REQUIRE) != 0;
  return target && container.AddEntry(target->ref) && (!stays || container.AddEntry(owner));
}

Decision CheckSharePolicy(Container& container, Call& call, Decision decision,
                          const rm::RS_SHARE_POLICY& policy) {
  if (policy.type == rm::RS_SHARE_TYPE_CLIENT && !container.ledger.Owns(policy.target)) {
    return container.Answer(call, NoSuchClient(call), Reason::kInvalid,
                            "RM_SHARE with a foreign client");
  }
  if (policy.type == rm::RS_SHARE_TYPE_CLIENT && !AddShare(container, decision.client, policy)) {
    return container.Answer(call, rm::NV_ERR_INSUFFICIENT_RESOURCES, Reason::kQuota,
                            "shares with clients over the quota");
  }
  return decision;
}

}  // namespace

std::optional<Decision> DecideShareEarly(Container& container, Call& call) {
  if (Load<rm::NVOS57_PARAMETERS>(call.image).sharePolicy.type > rm::RS_SHARE_TYPE_FM_CLIENT) {
    return container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                            "RM_SHARE of an unknown type");
  }
  return std::nullopt;
}

// Decides NV_ESC_RM_SHARE. The driver reports whether the client that is shared with exists.
Decision DecideShare(Container& container, Call& call, Decision decision) {
  const auto params = Load<rm::NVOS57_PARAMETERS>(call.image);
  const bool foreign = params.sharePolicy.type == rm::RS_SHARE_TYPE_CLIENT &&
                       !container.ledger.Owns(params.sharePolicy.target);
  if (!foreign && !container.ledger.Find(decision.client, params.hObject)) {
    return container.Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, Reason::kInvalid,
                            "RM_SHARE of an unknown object");
  }
  return CheckSharePolicy(container, call, std::move(decision), params.sharePolicy);
}

Decision DecideSharePolicy(Container& container, Call& call, Decision decision,
                           const ControlRule& /*rule*/) {
  return CheckSharePolicy(container, call, std::move(decision),
                          Load<rm::RS_SHARE_POLICY>(call.nested[0].bytes));
}

}  // namespace cgpu::boundary
