#include "boundary/boundary.h"

#include <cerrno>
#include <utility>

#include "boundary/calls/handler.h"
#include "boundary/calls/steps.h"
#include "boundary/names.h"
#include "boundary/objects.h"
#include "boundary/quotas.h"
#include "boundary/spaces.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

// Refuses with the driver's own status where the parameters have room for one.
Decision RefuseEscape(Container& container, Call& call) {
  return StatusOf(call) ? container.Answer(call, rm::NV_ERR_NOT_SUPPORTED, Reason::kNotAllowed,
                                           EscapeName(call.nr))
                        : container.Fail(EINVAL, Reason::kNotAllowed, EscapeName(call.nr));
}

}  // namespace

Boundary::Boundary(const rm::Abi& abi, std::vector<GpuIds> gpus, ledger::Ledger& ledger)
    : container_(abi, std::move(gpus), ledger) {
  SetQuotas();
}

Needs Boundary::NeedsOf(const Call& call) const {
  Needs needs;
  if (call.uvm_request != 0) {
    if (call.ChangesState()) {
      needs.space = call.uvm_space;
    }
    // UVM looks up what the call names of RM's late, so that must be what the ledger has found.
    if (call.client != 0) {
      needs.clients.push_back(call.client);
    }
    return needs;
  }
  const Handler* handler = FindHandler(call.nr);
  if (handler != nullptr && handler->clients != nullptr) {
    needs.clients = handler->clients(call);
  } else if (call.client != 0 && call.ChangesState()) {
    needs.clients.push_back(call.client);
  }
  if (call.client != 0) {
    if (const auto client = container_.ledger.FindClient(call.client)) {
      needs.gpu = container_.ledger.GpuOf(client->ref, call.object);
    }
  }
  return needs;
}

// A decision that met a doubtful object is given up, and the call is as it was before. Its entries
// in lists that only have a quota stay.
Decision Boundary::Decide(Call& call) {
  if (BytesDue(call) != 0) {
    return container_.Fail(EFAULT, Reason::kInvalid, "a call that is not copied in");
  }
  if (!container_.ledger.HasDoubts()) {
    return DecideOnce(call);
  }
  const Call before = call;
  (void)container_.ledger.TakeDoubts();
  Decision decision = DecideOnce(call);
  std::vector<ledger::Doubt> doubts = container_.ledger.TakeDoubts();
  if (doubts.empty()) {
    return decision;
  }
  if (decision.action == Decision::Action::kExecute) {
    (void)Account(call, decision, EAGAIN);
  }
  call = before;
  decision = {};
  decision.action = Decision::Action::kAsk;
  decision.doubts = std::move(doubts);
  return decision;
}

Decision Boundary::DecideOnce(Call& call) {
  if (call.uvm_request != 0) {
    return DecideUvm(container_, call);
  }
  const Handler* handler = FindHandler(call.nr);
  if (handler == nullptr) {
    return RefuseEscape(container_, call);
  }
  if (handler->decide_early != nullptr) {
    if (auto decision = handler->decide_early(container_, call)) {
      return std::move(*decision);
    }
  }
  Decision decision;
  decision.action = Decision::Action::kExecute;
  if (handler->for_client) {
    const auto client = container_.ledger.FindClient(call.client);
    if (!client) {
      return container_.Answer(call, NoSuchClient(call), Reason::kInvalid,
                               EscapeName(call.nr) + " on a foreign client");
    }
    decision.client = client->ref;
  }
  return handler->decide != nullptr ? handler->decide(container_, call, std::move(decision))
                                    : std::move(decision);
}

std::optional<Undo> Boundary::Account(Call& call, Decision& decision, int error) {
  const auto status = StatusOf(call);
  if (call.uvm_request != 0) {
    AccountUvm(container_, call, decision, error == 0 && status == rm::NV_OK);
    return std::nullopt;
  }
  const Outcome outcome{error, error == 0 && (!status || *status == rm::NV_OK)};
  const Handler* handler = FindHandler(call.nr);
  if (handler != nullptr && handler->settle != nullptr) {
    handler->settle(container_, call, decision, outcome);
  }
  if (!outcome.done) {
    container_.ledger.Cancel(decision.reservation);
    for (Transfer& transfer : decision.transfers) {
      container_.ledger.Cancel(transfer.reservation);
    }
    return std::nullopt;
  }
  return handler != nullptr && handler->account != nullptr
             ? handler->account(container_, call, decision)
             : std::nullopt;
}

void Boundary::Undone(Call& call, Decision& decision) {
  container_.refusals.Count("memory beyond the reservation");
  container_.ledger.CountDenial(decision.gpu.value_or(0));
  SetStatus(call, rm::NV_ERR_NO_MEMORY);
  container_.ledger.Cancel(decision.reservation);
}

void Boundary::AddSpace(ledger::FileKey space, ledger::ProcessKey owner) {
  container_.spaces.try_emplace(space, owner);
}

const UvmSpace* Boundary::FindSpace(ledger::FileKey space) const {
  const auto found = container_.spaces.find(space);
  return found == container_.spaces.end() ? nullptr : &found->second;
}

void Boundary::RemoveSpace(ledger::FileKey space) {
  const auto found = container_.spaces.find(space);
  if (found == container_.spaces.end()) {
    return;
  }
  for (ledger::Gpu gpu = 0; gpu < container_.gpus.size(); ++gpu) {
    container_.ledger.ForceExtra({found->second.owner(), space}, gpu, 0);
  }
  container_.ledger.CloseFile(space);
  container_.spaces.erase(found);
}

void Boundary::DropGoneClients() {
  std::vector<std::uint32_t> gone;
  for (const auto& [handle, tracker] : container_.dma) {
    const auto client = container_.ledger.FindClient(handle);
    if (!client || client->ref != tracker.client()) {
      gone.push_back(handle);
    }
  }
  for (const std::uint32_t handle : gone) {
    DropDmaTracker(container_, handle);
  }
}

void Boundary::SetSizes(ledger::Gpu gpu, const GpuSizes& sizes) {
  container_.gpus[gpu].sizes = sizes;
  SetQuotas();
}

void Boundary::SetQuotas() {
  for (ledger::Gpu gpu = 0; gpu < container_.gpus.size(); ++gpu) {
    container_.ledger.SetGpuQuotas(
        gpu, QuotasOf(container_.ledger.Limit(gpu), container_.gpus[gpu].total_bytes,
                      container_.gpus[gpu].sizes.bar1_bytes));
  }
}

}  // namespace cgpu::boundary
