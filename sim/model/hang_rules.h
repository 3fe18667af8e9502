// Rules that a channel of the simulated GPU hangs for good if somebody breaks them. On an H200,
// programs that started while their container's channels were taken off by FIFO_DISABLE_CHANNELS
// hung (docs/hardware/h200-580.159.04.md). Nobody knows which of these rules it has. A node has
// all, unless `cgpu sim start --hang-rules` says otherwise.
#ifndef CGPU_SIM_MODEL_HANG_RULES_H_
#define CGPU_SIM_MODEL_HANG_RULES_H_

#include <string_view>

#include "base/result.h"

namespace cgpu::sim {

struct HangRules {
  bool unscheduled = true;  // a channel that is disabled before it was scheduled
  bool mixed = true;        // all channels of a list that names one that is not scheduled
  bool rescheduled = true;  // a group that is scheduled while a channel of it is disabled
  bool copies = true;       // all channels of a list that names one of a copy engine
  bool enabled = true;      // a channel that is enabled and was not disabled
};

// Parses "all", "none", or names of rules with commas between them. kInvalid, with all of them.
[[nodiscard]] Result<HangRules> ParseHangRules(std::string_view text);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_HANG_RULES_H_
