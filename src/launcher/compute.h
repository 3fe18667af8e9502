// Compute time that containers are promised: admission, and changes while they run. cgpud holds the
// containers to it; it sees every change in the registry.
#ifndef CGPU_LAUNCHER_COMPUTE_H_
#define CGPU_LAUNCHER_COMPUTE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "governor/policy.h"
#include "grant/grant.h"
#include "registry/registry.h"

namespace cgpu {

// Checks whether each of `cards` can give `wanted` beside what `live` containers were promised;
// errors as CanHonour(). For a GPU that has no container and no policy, it writes down the policy
// that this request chooses.
[[nodiscard]] Result<> AdmitCompute(const Registry& registry, const RegistryLock& lock,
                                    const std::vector<CardGrant>& cards,
                                    const std::vector<Reservation>& live,
                                    const ComputeRequest& wanted);

// Returns the policies of `cards`, in their order.
[[nodiscard]] Result<std::vector<governor::Policy>> PoliciesOf(const Registry& registry,
                                                               const std::vector<Card>& cards);

// Sets the policy of a GPU from now on, also for the containers that are there. No policy: what the
// GPU's first container has chosen. kConflict or kExhausted: a container was promised what the
// policy cannot honour.
[[nodiscard]] Result<> SetPolicy(const Registry& registry, const Card& card,
                                 std::optional<governor::Policy> policy);

// Sets the policy if nothing was set since the host booted. kConflict: another one was set, and
// holds.
[[nodiscard]] Result<> SetPolicyAtStart(const Registry& registry, const std::string& uuid,
                                        governor::Policy policy);

// A change of what a running container is promised on all its GPUs.
struct ComputeChange {
  // A number to change. Nothing: it stays as it was. A number that is nothing: the container asks
  // for that no longer.
  using Number = std::optional<std::optional<std::uint64_t>>;

  std::string container;
  Number percent;
  Number max_percent;
  Number weight;
  std::optional<bool> high_priority;
};
[[nodiscard]] Result<ComputeRequest> ChangeCompute(const Registry& registry,
                                                   const ComputeChange& change);

// Checks whether the container's shim takes orders now. kUnavailable: it is silent, and what was
// set does not hold yet.
[[nodiscard]] Result<> AnswersOrders(const Registry& registry, const std::string& container);

// Says on stderr that no daemon is at the socket `daemon`, if so; what is set counts once there is
// one.
void TellIfNobodyHoldsShares(const std::string& daemon);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_COMPUTE_H_
