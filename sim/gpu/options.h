// The options of `cgpu sim start` for the GPUs' engines.
#ifndef CGPU_SIM_GPU_OPTIONS_H_
#define CGPU_SIM_GPU_OPTIONS_H_

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "sim/engine/types.h"

namespace cgpu::sim {

struct GpuOptions {
  std::uint64_t context_switch_us = 150;  // an H200: 140 to 160 (docs/hardware)
  // DISABLE_CHANNELS, PREEMPT, STOP_CHANNEL of what is running. An H200, the call included: 366 to
  // 455.
  std::uint64_t preempt_us = 300;
  std::uint64_t copy_gbps = 20;  // 10^9 bytes a second, of each copy engine
  // When orders take effect. At once, as on an H200; `cgpu sim start` takes kCautiousEffect.
  engine::SliceEffect slice_effect = engine::SliceEffect::kAtOnce;
  engine::DisableEffect disable_effect = engine::DisableEffect::kAtOnce;
};

// The most cautious that has a witness, for both: the runlist is to be restarted
// (docs/reference/simulated-driver.md).
inline constexpr std::string_view kCautiousEffect = "restart";

// Parse at-once, preempt, own-schedule, any-schedule, restart, never, and at-once, restart,
// for-good. kInvalid, with all of them.
[[nodiscard]] Result<engine::SliceEffect> ParseSliceEffect(std::string_view text);
[[nodiscard]] Result<engine::DisableEffect> ParseDisableEffect(std::string_view text);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_GPU_OPTIONS_H_
