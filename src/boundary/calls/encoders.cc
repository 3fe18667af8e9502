// Controls that take and give back encoder sessions of a GPU.
#include <algorithm>
#include <utility>

#include "boundary/calls/control_handler.h"
#include "boundary/calls/handler.h"
#include "boundary/quotas.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

// Settles a call that took a session and was refused, or one that gave a session back.
void GiveBackEncoder(Container& container, const Decision& decision) {
  for (Encoders& one : container.encoders) {
    if (one.gpu == decision.gpu && one.client == decision.client && one.taken != 0) {
      --one.taken;
    }
  }
}

}  // namespace

// Takes an encoder session, which belongs to its client and ends with it. (It is not on record that
// the firmware gives back a client's sessions when the client ends; sessions of killed programs do
// not pile up.)
Decision DecideTakeEncoder(Container& container, Call& call, Decision decision,
                           const ControlRule& /*rule*/) {
  std::erase_if(container.encoders, [&container](const Encoders& one) {
    const auto client = container.ledger.FindClient(one.client.handle);
    return one.taken == 0 || !client || client->ref != one.client;
  });
  const ledger::Gpu gpu = decision.gpu.value_or(0);
  std::uint32_t taken = 0;
  Encoders* mine = nullptr;
  for (Encoders& one : container.encoders) {
    taken += one.gpu == gpu ? one.taken : 0;
    mine = one.gpu == gpu && one.client == decision.client ? &one : mine;
  }
  if (taken >= EncodersOf(container.ledger.Limit(gpu), container.gpus[gpu].total_bytes)) {
    return container.Answer(call, rm::NV_ERR_MAX_SESSION_LIMIT_REACHED, Reason::kQuota,
                            "encoder sessions over the quota");
  }
  if (mine == nullptr) {
    mine = &container.encoders.emplace_back(Encoders{decision.client, gpu, 0});
  }
  ++mine->taken;
  return decision;
}

void SettleTakeEncoder(Container& container, Call& /*call*/, const Decision& decision,
                       const Outcome& outcome) {
  if (!outcome.done) {
    GiveBackEncoder(container, decision);
  }
}

Decision DecideGiveEncoder(Container& container, Call& call, Decision decision,
                           const ControlRule& /*rule*/) {
  const bool took = std::ranges::any_of(container.encoders, [&](const Encoders& one) {
    return one.gpu == decision.gpu && one.client == decision.client && one.taken != 0;
  });
  return took ? std::move(decision)
              : container.Answer(call, rm::NV_ERR_INVALID_ARGUMENT, Reason::kInvalid,
                                 "an encoder session that was not taken");
}

std::optional<Undo> AccountGiveEncoder(Container& container, Call& /*call*/, Decision& decision) {
  GiveBackEncoder(container, decision);
  return std::nullopt;
}

}  // namespace cgpu::boundary
