#include "cgpud/plan_cards.h"

#include "governor/plan.h"
#include "host/node.h"

namespace cgpu {
namespace {

governor::Rules RulesFor(const CardSettings& settings, unsigned max_inst, bool can_suspend) {
  governor::Rules rules;
  rules.policy = settings.PolicyNow();
  rules.max_inst = settings.max_inst.value_or(max_inst);
  rules.prio_ratio = settings.prio_ratio.value_or(governor::kDefaultPrioRatio);
  rules.can_suspend = can_suspend;
  return rules;
}

}  // namespace

Result<std::map<std::string, PlannedCard>> PlanCards(const Registry& registry, unsigned max_inst,
                                                     const std::set<std::string>& suspendable) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.List(lock));
  return PlanCards(registry, lock, live, max_inst, suspendable);
}

std::map<std::string, PlannedCard> PlanCards(const Registry& registry, const RegistryLock& lock,
                                             const std::vector<Reservation>& live,
                                             unsigned max_inst,
                                             const std::set<std::string>& suspendable) {
  std::map<std::string, PlannedCard> cards;
  std::map<std::string, std::vector<governor::Member>> members;
  for (const Reservation& reservation : live) {
    for (const CardGrant& grant : reservation.cards) {
      if (reservation.isolated) {
        // The oldest container has the first place.
        auto& there = members[grant.card.uuid];
        there.push_back({reservation.compute, static_cast<unsigned>(there.size())});
        cards[grant.card.uuid].members.push_back({reservation.id, reservation.shim_uid, {}, 0});
      }
    }
  }
  for (auto& [uuid, card] : cards) {
    const auto settings = registry.SettingsOf(lock, uuid);
    if (!settings.ok()) {
      card.members.clear();  // it stays as it is there
      continue;
    }
    const governor::Rules rules = RulesFor(*settings, max_inst, suspendable.contains(uuid));
    const auto orders = governor::Plan(rules, members[uuid]);
    card.policy = rules.policy;
    const auto shares = governor::Shares(rules, members[uuid]);
    card.by_slices = rules.policy != governor::Policy::kNative;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      card.members[i].order = orders[i];
      card.members[i].promised = shares[i];
      card.by_slices = card.by_slices && !orders[i].high && orders[i].duty == governor::Duty{};
    }
  }
  return cards;
}

std::set<std::string> SuspendableCards(const std::string& name) {
  std::set<std::string> cards;
  const auto node = FindNode(name);
  if (node.ok() && !node->name.empty()) {
    for (const Card& card : node->cards) {
      cards.insert(card.uuid);
    }
  }
  return cards;
}

}  // namespace cgpu
