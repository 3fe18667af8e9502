// Plans what the containers of each GPU get, from what the registry says.
#ifndef CGPU_CGPUD_PLAN_GPUS_H_
#define CGPU_CGPUD_PLAN_GPUS_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "governor/order.h"
#include "governor/policy.h"
#include "host/registry.h"

namespace cgpu {

struct PlannedMember {
  std::string id;
  uid_t shim_uid = 0;
  governor::Order order;
  double promised = 0;  // governor::Shares()

  bool operator==(const PlannedMember&) const = default;
};

struct PlannedGpu {
  governor::Policy policy = governor::Policy::kPreempt;
  std::vector<PlannedMember> members;  // in the order of their age
  // Whether time slices alone share the GPU, so that what is measured may correct them.
  bool by_slices = false;
};

// Returns the plan by UUID, for the GPUs on which some container is held to a slice; without what
// was measured. `max_inst`: for GPUs for which nothing else was set; `suspendable`: GPUs whose
// channels may be taken off.
[[nodiscard]] Result<std::map<std::string, PlannedGpu>> PlanGpus(
    const Registry& registry, unsigned max_inst, const std::set<std::string>& suspendable);

// Returns the same for these containers.
[[nodiscard]] std::map<std::string, PlannedGpu> PlanGpus(const Registry& registry,
                                                         const RegistryLock& lock,
                                                         const std::vector<Reservation>& live,
                                                         unsigned max_inst,
                                                         const std::set<std::string>& suspendable);

// Returns the UUIDs of the GPUs of `node`, as FindNode() takes its name, whose channels may be
// taken off them (Node::caps). A daemon of a simulated node has containers of the host's GPUs
// beside it: theirs are not in the set.
[[nodiscard]] std::set<std::string> SuspendableGpus(const std::string& node);

}  // namespace cgpu

#endif  // CGPU_CGPUD_PLAN_GPUS_H_
