// What containers are promised of the cards' compute time: admission, and changes while they run.
// Who holds them to it is the node's daemon, which sees every change in the registry.
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

// Whether each of `cards` can give `wanted` beside what `live` containers have been promised;
// errors as CanHonour(). What it then chooses for a card on which nobody is, and for which nobody
// has set a policy, is set down.
[[nodiscard]] Result<> AdmitCompute(const Registry& registry, const RegistryLock& lock,
                                    const std::vector<CardGrant>& cards,
                                    const std::vector<Reservation>& live,
                                    const ComputeRequest& wanted);

// The policies of `cards`, in their order.
[[nodiscard]] Result<std::vector<governor::Policy>> PoliciesOf(const Registry& registry,
                                                               const std::vector<Card>& cards);

// From now on, for the containers that are there too; none: what its first container has chosen.
// kConflict or kExhausted: one of them was promised what the policy cannot honour.
[[nodiscard]] Result<> SetPolicy(const Registry& registry, const Card& card,
                                 std::optional<governor::Policy> policy);

// Sets it where nothing was set while the machine runs. kConflict: something else was, and holds.
[[nodiscard]] Result<> SetPolicyAtStart(const Registry& registry, const std::string& uuid,
                                        governor::Policy policy);

// What a running container, by id, its unique beginning, or name, is promised on all its cards in
// place of what it was. Errors as CanHonour(), and kNotFound. Returns what it is promised now.
struct ComputeChange {
  // None: as it was. A number that is none: it asks for that no longer.
  using Number = std::optional<std::optional<std::uint64_t>>;

  std::string container;
  Number percent;
  Number max_percent;
  Number weight;
  std::optional<bool> high_priority;
};
[[nodiscard]] Result<ComputeRequest> ChangeCompute(const Registry& registry,
                                                   const ComputeChange& change);

// Whether the container's shim takes orders now. kUnavailable: it is silent, and what was set does
// not hold yet.
[[nodiscard]] Result<> AnswersOrders(const Registry& registry, const std::string& container);

// Says so on stderr where no daemon is at the socket `daemon`; what is set counts once there is.
void TellIfNobodyHoldsShares(const std::string& daemon);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_COMPUTE_H_
