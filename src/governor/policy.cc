#include "governor/policy.h"

#include <string>

namespace cgpu::governor {
namespace {

constexpr std::array<std::string_view, kPolicies.size()> kNames = {"fair",  "preempt", "weight",
                                                                   "fixed", "soft",    "native"};
constexpr std::uint64_t kWhole = 100;

Error NotHonoured(const Gpu& gpu, Policy policy, std::string_view what, Policy other) {
  const std::string index = std::to_string(gpu.index);
  return Error{Code::kConflict, 0,
               "GPU " + index + " has the compute policy " + std::string(NameOf(policy)) +
                   ", which knows no " + std::string(what),
               "leave it out, or as root: cgpu policy " + index + " " + std::string(NameOf(other))};
}

Result<> HasLeft(const Gpu& gpu, std::span<const ComputeRequest> others, std::uint64_t wanted) {
  std::uint64_t promised = 0;
  for (const ComputeRequest& other : others) {
    promised += other.high_priority ? 0 : other.percent.value_or(1);  // 1 at the least
  }
  if (promised + wanted <= kWhole) {
    return {};
  }
  const std::uint64_t left = promised < kWhole ? kWhole - promised : 0;
  return Error{Code::kExhausted, 0,
               "GPU " + std::to_string(gpu.index) + " has " + std::to_string(left) +
                   " % of its compute time left, and " + std::to_string(wanted) +
                   " % were asked for",
               "ask for less, or see who has it with: cgpu ps"};
}

}  // namespace

std::string_view NameOf(Policy policy) {
  return kNames[static_cast<std::size_t>(policy)];
}

Result<Policy> ParsePolicy(std::string_view text) {
  for (const Policy policy : kPolicies) {
    const auto number = static_cast<std::size_t>(policy);
    if (text == kNames[number] || text == std::to_string(number)) {
      return policy;
    }
  }
  return Error{Code::kInvalid, 0, "\"" + std::string(text) + "\" is no compute policy",
               "use fair (0), preempt (1), weight (2), fixed (3), soft (4) or native (5)"};
}

Policy ChosenBy(const ComputeRequest& first) {
  const bool percent = first.percent.has_value();
  if (first.weight && (*first.weight > 1 || !percent)) {
    return Policy::kWeight;
  }
  if (percent) {
    return first.max_percent ? Policy::kSoft : Policy::kFixed;
  }
  return Policy::kPreempt;
}

Result<> CanHonour(const Gpu& gpu, Policy policy, std::span<const ComputeRequest> others,
                   const ComputeRequest& wanted) {
  if (wanted.weight.value_or(1) > 1 && policy != Policy::kWeight) {
    return NotHonoured(gpu, policy, "weights", Policy::kWeight);
  }
  if (wanted.max_percent && policy != Policy::kSoft) {
    return NotHonoured(gpu, policy, "maximum beyond a percentage", Policy::kSoft);
  }
  const bool percentages = policy == Policy::kFixed || policy == Policy::kSoft;
  if (wanted.percent && !percentages) {
    return NotHonoured(gpu, policy, "percentages", Policy::kFixed);
  }
  if (wanted.high_priority && policy == Policy::kNative) {
    return NotHonoured(gpu, policy, "priorities", Policy::kPreempt);
  }
  // A container that asks for no percentage gets a share of what is left, which must be something;
  // one of high priority takes what it needs.
  if (!percentages || wanted.high_priority) {
    return {};
  }
  return HasLeft(gpu, others, wanted.percent.value_or(1));
}

}  // namespace cgpu::governor
