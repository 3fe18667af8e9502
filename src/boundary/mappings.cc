// Decides views of memory: RM_MAP_MEMORY and its kin. GPU memory is seen through BAR1, which all
// users of the GPU share. Every view takes memory of the kernel's.
#include "boundary/boundary.h"
#include "boundary/quotas.h"
#include "rm/nv_classes.h"
#include "rm/nv_status.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {

void Boundary::SetFigures(ledger::Card card, const CardFigures& figures) {
  cards_[card].figures = figures;
  SetBounds();
}

void Boundary::SetBounds() {
  for (ledger::Card card = 0; card < cards_.size(); ++card) {
    ledger_.SetCardBounds(card, BoundsOf(ledger_.Limit(card), cards_[card].total_bytes,
                                         cards_[card].figures.bar1_bytes));
  }
}

Decision Boundary::DecideMapMemory(Call& call, Decision decision) {
  if (!call.fd || !call.fd->file || !call.fd->file->granted) {
    return Answer(call, rm::NV_ERR_INVALID_ARGUMENT, "MAP_MEMORY onto a foreign file");
  }
  const auto map = Load<rm::NVOS33_PARAMETERS>(call.image);
  const auto memory = ledger_.Find(decision.client, map.hMemory);
  if (!memory) {
    return Answer(call, rm::NV_ERR_OBJECT_NOT_FOUND, "MAP_MEMORY of an unknown object");
  }
  if (memory->cls == rm::NV01_MEMORY_LOCAL_PRIVILEGED) {
    return Answer(call, rm::NV_ERR_PROTECTION_FAULT, "MAP_MEMORY of registers");
  }
  const std::uint64_t bytes =
      memory->page_bytes == 0 ? 0 : Bar1Bytes(map.offset, map.length, memory->page_bytes);
  auto reservation = ledger_.ReserveMapping(decision.client, memory->ref, bytes);
  if (!reservation.ok()) {
    return Answer(call, rm::NV_ERR_NO_MEMORY, "views of memory over a bound");
  }
  decision.object = memory->ref;
  decision.reservation = std::move(*reservation);
  return decision;
}

void Boundary::AccountMapMemory(const Call& call, Decision& decision) {
  const auto map = Load<rm::NVOS33_PARAMETERS>(call.image);
  // Fails only if the object is gone, and then so is the view.
  if (!ledger_
           .AddMapping(decision.reservation, decision.client, decision.object, map.pLinearAddress)
           .ok()) {
    ledger_.Cancel(decision.reservation);
  }
}

void Boundary::AccountUnmapMemory(const Call& call, const Decision& decision) {
  const auto unmap = Load<rm::NVOS34_PARAMETERS>(call.image);
  ledger_.RemoveMapping(decision.client, {unmap.hMemory, 0}, unmap.pLinearAddress);
}

void Boundary::AccountMovedMapping(const Call& call, const Decision& decision) {
  const auto update = Load<rm::NVOS56_PARAMETERS>(call.image);
  ledger_.MoveMapping(decision.client, {update.hMemory, 0}, update.pOldCpuAddress,
                      update.pNewCpuAddress);
}

}  // namespace cgpu::boundary
