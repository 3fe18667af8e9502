// Plans what the containers of each GPU get, from what the registry says.
#ifndef CGPU_CGPUD_PLAN_GPUS_H_
#define CGPU_CGPUD_PLAN_GPUS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "governor/order.h"
#include "governor/policy.h"
#include "host/capping.h"
#include "host/registry.h"

namespace cgpu {

struct PlannedMember {
  std::string id;
  uid_t shim_uid = 0;
  governor::Order order;
  double promised = 0;  // governor::Shares()
  double cap = 1;       // governor::Caps(); 1: it has none

  bool operator==(const PlannedMember&) const = default;
};

struct PlannedGpu {
  governor::Policy policy = governor::Policy::kPreempt;
  std::vector<PlannedMember> members;  // in the order of their age
  // Whether time slices alone share the GPU, so that what is measured may correct them.
  bool by_slices = false;
  // Whether an idle group is to hold the members to their caps.
  bool idles = false;
};

// How each GPU of a node takes orders, by UUID. A daemon of a simulated node has containers of the
// host's GPUs beside it: theirs are not in it.
using Means = std::map<std::string, CardMeans>;
[[nodiscard]] Means MeansOfGpus(const Node& node);
// Returns those of one GPU; for one that is not among them, those of which nothing is known.
[[nodiscard]] CardMeans MeansIn(const Means& means, const std::string& uuid);
// Returns them for `node`, as FindNode() takes its name: none, if it is not there.
[[nodiscard]] Means MeansOfNode(const std::string& node);

// Returns the plan by UUID, for the GPUs on which some container is held to a slice; without what
// was measured. `max_inst`: for GPUs for which nothing else was set.
[[nodiscard]] Result<std::map<std::string, PlannedGpu>> PlanGpus(const Registry& registry,
                                                                 unsigned max_inst,
                                                                 const Means& means);

// Returns the same for these containers.
[[nodiscard]] std::map<std::string, PlannedGpu> PlanGpus(const Registry& registry,
                                                         const RegistryLock& lock,
                                                         const std::vector<Reservation>& live,
                                                         unsigned max_inst, const Means& means);

}  // namespace cgpu

#endif  // CGPU_CGPUD_PLAN_GPUS_H_
