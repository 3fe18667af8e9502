// Compute time that containers are promised: admission, and changes while they run. cgpud holds the
// containers to it; it sees every change in the registry.
#ifndef CGPU_HOST_COMPUTE_H_
#define CGPU_HOST_COMPUTE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "governor/policy.h"
#include "grant/grant.h"
#include "host/registry.h"
#include "host/saved_settings.h"

namespace cgpu {

// Checks whether each of `gpus` can give `wanted` beside what `live` containers were promised;
// errors as CanHonour(). For a GPU whose containers were promised nothing, it writes down the
// policy that this request chooses, which counts as long as none was set (GpuSettings).
[[nodiscard]] Result<> AdmitCompute(const Registry& registry, const RegistryLock& lock,
                                    const std::vector<GpuGrant>& gpus,
                                    const std::vector<Reservation>& live,
                                    const ComputeRequest& wanted);

// Returns the settings of `gpus`, in their order.
[[nodiscard]] Result<std::vector<GpuSettings>> SettingsOf(const Registry& registry,
                                                          const std::vector<Gpu>& gpus);

// Sets this for a GPU from now on, also for the containers that are there, and saves it in the file
// `saved` (none if empty). The policy "auto": what the GPU's first container has chosen. A max_inst
// below the number of present slices ends none. kConflict or kExhausted: a container was promised
// what the policy cannot honour.
[[nodiscard]] Result<> ChangeGpu(const Registry& registry, const Gpu& gpu,
                                 const SavedSettings& change, const std::string& saved);

// Forgets all that ChangeGpu() has set for a GPU. From now on `configured` holds, the policy of
// the host's settings, if any. Errors as ChangeGpu().
[[nodiscard]] Result<> ResetGpu(const Registry& registry, const Gpu& gpu,
                                std::optional<governor::Policy> configured,
                                const std::string& saved);

// Sets what was saved for a GPU, except what was set since the host booted.
[[nodiscard]] Result<> RestoreGpu(const Registry& registry, const std::string& uuid,
                                  const SavedSettings& saved);

// Sets the policy of the host's settings if none was set since the host booted. kConflict: another
// one was set, and holds.
[[nodiscard]] Result<> SetPolicyAtStart(const Registry& registry, const std::string& uuid,
                                        governor::Policy policy);

// A change of what a running container is promised on all its GPUs.
struct ComputeChange {
  // A number to change. Nothing: it stays as it was. A number that is nothing: the container
  // withdraws that request.
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

#endif  // CGPU_HOST_COMPUTE_H_
