// Settings of one GPU, made while the host runs, as <registry>/<UUID>.card has them: what root has
// set and what the GPU's first container has chosen. They hold for every container that is admitted
// from then on, whatever starts it and whatever has ended since. They last until the host boots,
// since /run does not outlive it; saved_settings.h has those that last longer. Pure.
#ifndef CGPU_HOST_GPU_SETTINGS_H_
#define CGPU_HOST_GPU_SETTINGS_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "governor/policy.h"

namespace cgpu {

struct GpuSettings {
  // Most slices that the GPU may have at a time, 1 to kMostMaxInst. Without it, the host's settings
  // count.
  std::optional<unsigned> max_inst = std::nullopt;
  // Policy of the GPU's compute time. Without it, `chosen` counts, from the first container that
  // asked for something, until the GPU is empty again.
  std::optional<governor::Policy> policy = std::nullopt;
  std::optional<governor::Policy> chosen = std::nullopt;
  // Percentage of containers of high priority, kLeastPrioRatio to kMostPrioRatio; without it,
  // kDefaultPrioRatio.
  std::optional<unsigned> prio_ratio = std::nullopt;

  [[nodiscard]] governor::Policy PolicyNow() const {
    return policy.value_or(chosen.value_or(governor::Policy::kPreempt));
  }
};

// Encode and decode the file. Decoding skips lines that a later version has added.
[[nodiscard]] std::string EncodeGpuSettings(const GpuSettings& settings);
[[nodiscard]] Result<GpuSettings> DecodeGpuSettings(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_HOST_GPU_SETTINGS_H_
