#include "sim/model/hang_rules.h"

#include <string>

namespace cgpu::sim {

Result<HangRules> ParseHangRules(std::string_view text) {
  struct Rule {
    std::string_view name;
    bool HangRules::* member;
  };
  constexpr Rule kRules[] = {{"unscheduled", &HangRules::unscheduled},
                             {"mixed", &HangRules::mixed},
                             {"rescheduled", &HangRules::rescheduled},
                             {"copies", &HangRules::copies},
                             {"enabled", &HangRules::enabled}};
  if (text == "all") {
    return HangRules{};
  }
  HangRules rules{false, false, false, false, false};
  while (text != "none") {
    const std::string_view name = text.substr(0, text.find(','));
    bool known = false;
    for (const auto& [rule, member] : kRules) {
      if (name == rule) {
        rules.*member = true;
        known = true;
      }
    }
    if (!known) {
      return Error{Code::kInvalid,
                   0,
                   "there is no rule \"" + std::string(name) +
                       "\"; all, none, or some of unscheduled, mixed, rescheduled, copies, enabled",
                   {}};
    }
    if (name.size() == text.size()) {
      break;
    }
    text.remove_prefix(name.size() + 1);
  }
  return rules;
}

}  // namespace cgpu::sim
