// What was set for one card while the node runs, as <registry>/<UUID>.card has it: by root, and
// what its first container has chosen. It holds
// for every container that is admitted from then on, whoever starts it and whatever has ended
// since; /run being what it is, until the machine boots. Pure.
#ifndef CGPU_REGISTRY_CARD_SETTINGS_H_
#define CGPU_REGISTRY_CARD_SETTINGS_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "governor/policy.h"

namespace cgpu {

struct CardSettings {
  // Slices that it may have at a time, 1 to kMostMaxInst; without, what the node's settings say.
  std::optional<unsigned> max_inst = std::nullopt;
  // How its compute time is shared out. Without, the first container that comes to an empty card
  // has chosen, for all that come until it is empty again.
  std::optional<governor::Policy> policy = std::nullopt;
  std::optional<governor::Policy> chosen = std::nullopt;
  // kLeastPrioRatio to kMostPrioRatio; without, kDefaultPrioRatio.
  std::optional<unsigned> prio_ratio = std::nullopt;

  [[nodiscard]] governor::Policy PolicyNow() const {
    return policy.value_or(chosen.value_or(governor::Policy::kPreempt));
  }
};

// Lines that a later version has added are passed over.
[[nodiscard]] std::string EncodeCardSettings(const CardSettings& settings);
[[nodiscard]] Result<CardSettings> DecodeCardSettings(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_REGISTRY_CARD_SETTINGS_H_
