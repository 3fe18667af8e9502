// Policies: how the compute time of one GPU is shared among the containers that have a slice of it.
// Pure. Numbers and names are those of the contract (Alibaba Cloud's cGPU, policies 0 to 5);
// docs/explanation/compute.md says what each one promises.
#ifndef CGPU_GOVERNOR_POLICY_H_
#define CGPU_GOVERNOR_POLICY_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "grant/grant.h"
#include "grant/request.h"

namespace cgpu::governor {

enum class Policy : std::uint8_t {
  kFair = 0,     // 1/max_inst each, never more
  kPreempt = 1,  // equal shares among those that have work
  kWeight = 2,   // by weight among those that have work
  kFixed = 3,    // its percentage, never more
  kSoft = 4,     // its percentage; more, up to its maximum, while others leave time
  kNative = 5,   // as the driver pleases
};
inline constexpr std::array kPolicies = {Policy::kFair,  Policy::kPreempt, Policy::kWeight,
                                         Policy::kFixed, Policy::kSoft,    Policy::kNative};

// GPU time, in percent, that containers of high priority take together while they have work (the
// contract's prio_ratio).
inline constexpr unsigned kDefaultPrioRatio = 90;
inline constexpr unsigned kLeastPrioRatio = 20;
inline constexpr unsigned kMostPrioRatio = 99;

// Returns "fair", "preempt", "weight", "fixed", "soft" or "native".
[[nodiscard]] std::string_view NameOf(Policy policy);
// Parses a name or a number. kInvalid, with all of them.
[[nodiscard]] Result<Policy> ParsePolicy(std::string_view text);

// Returns the policy of a GPU for which none was set, from the first container that comes to it and
// asks for something.
[[nodiscard]] Policy ChosenBy(const ComputeRequest& first);

// Checks whether a GPU under `policy` can give `wanted` beside what `others` were promised.
// kConflict: the policy knows no such thing. kExhausted: too little is left. Both say what to do.
[[nodiscard]] Result<> CanHonour(const Gpu& gpu, Policy policy,
                                 std::span<const ComputeRequest> others,
                                 const ComputeRequest& wanted);

}  // namespace cgpu::governor

#endif  // CGPU_GOVERNOR_POLICY_H_
