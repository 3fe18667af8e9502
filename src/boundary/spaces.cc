#include "boundary/spaces.h"

#include "boundary/page_tables.h"

namespace cgpu::boundary {

std::set<ledger::Card> ManagedCards(const Container& container) {
  std::set<ledger::Card> cards(container.registering.begin(), container.registering.end());
  for (const auto& [key, space] : container.spaces) {
    cards.insert(space.gpus().begin(), space.gpus().end());
  }
  return cards;
}

std::uint64_t RangeGroups(const Container& container) {
  std::uint64_t groups = 0;
  for (const auto& [key, space] : container.spaces) {
    groups += space.groups();
  }
  return groups;
}

Decision ReserveTables(Container& container, Call& call, Decision decision, UvmSpace& space) {
  const AddressRange& range = decision.uvm_range;
  const ledger::ExtraKey key{space.owner(), call.uvm_space};
  for (const ledger::Card card : decision.uvm_planned) {
    space.PlanPiece(card, range.start, range.end);
  }
  const std::uint64_t root =
      decision.card && !space.va_spaces().contains(*decision.card) ? PageTables::kTableBytes : 0;
  for (ledger::Card card = 0; card < container.cards.size(); ++card) {
    const bool own = decision.card == card;
    if (!container.ledger.SetExtra(key, card, space.Bytes(card) + (own ? root : 0)).ok()) {
      DropPlan(container, call, decision, space);
      container.ledger.Cancel(decision.reservation);
      return container.NoMemory(call, card);
    }
  }
  return decision;
}

void DropPlan(Container& container, const Call& call, const Decision& decision, UvmSpace& space) {
  for (const ledger::Card card : decision.uvm_planned) {
    space.DropPlan(card, decision.uvm_range.start, decision.uvm_range.end);
  }
  SettleSpace(container, call.uvm_space, space);
}

void SettleSpace(Container& container, ledger::FileKey key, UvmSpace& space) {
  for (const UvmSpace::Hold hold : space.TakeReleased()) {
    container.ledger.Unexport(key, hold);
  }
  for (ledger::Card card = 0; card < container.cards.size(); ++card) {
    container.ledger.ForceExtra({space.owner(), key}, card, space.Bytes(card));
  }
}

}  // namespace cgpu::boundary
