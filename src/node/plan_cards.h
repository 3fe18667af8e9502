// What the containers of each card are to have, from what the registry says.
#ifndef CGPU_NODE_PLAN_CARDS_H_
#define CGPU_NODE_PLAN_CARDS_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "governor/order.h"
#include "governor/policy.h"
#include "registry/registry.h"

namespace cgpu {

struct PlannedMember {
  std::string id;
  uid_t shim_uid = 0;
  governor::Order order;
  double promised = 0;  // governor::Shares()

  bool operator==(const PlannedMember&) const = default;
};

struct PlannedCard {
  governor::Policy policy = governor::Policy::kPreempt;
  std::vector<PlannedMember> members;  // in the order of their age
  // Shared by slices alone, so that what is measured may correct them.
  bool by_slices = false;
};

// By UUID, of the cards that some container is held to a part of; without what was measured.
// `max_inst`: of cards for which nothing else was set; `suspendable`: those whose channels may be
// taken off.
[[nodiscard]] Result<std::map<std::string, PlannedCard>> PlanCards(
    const Registry& registry, unsigned max_inst, const std::set<std::string>& suspendable);

// The UUIDs of a node's cards, as FindNode() takes its name, whose channels may be taken off them.
// What a real card and driver make of it is not known before it was measured (docs/hardware): so a
// container of the machine's cards is safe also beside a daemon of a simulated node.
[[nodiscard]] std::set<std::string> SuspendableCards(const std::string& node);

}  // namespace cgpu

#endif  // CGPU_NODE_PLAN_CARDS_H_
