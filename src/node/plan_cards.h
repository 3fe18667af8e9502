// What the containers of each card are to have, from what the registry says.
#ifndef CGPU_NODE_PLAN_CARDS_H_
#define CGPU_NODE_PLAN_CARDS_H_

#include <sys/types.h>

#include <map>
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
// `max_inst`: of cards for which nothing else was set; `can_suspend`: see governor::Rules.
[[nodiscard]] Result<std::map<std::string, PlannedCard>> PlanCards(const Registry& registry,
                                                                   unsigned max_inst,
                                                                   bool can_suspend);

// Whether channels may be taken off the cards of a node, as FindNode() takes its name. What a real
// card and driver make of it is not known before it was measured (docs/hardware).
[[nodiscard]] bool CanSuspend(const std::string& node);

}  // namespace cgpu

#endif  // CGPU_NODE_PLAN_CARDS_H_
