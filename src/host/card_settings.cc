#include "host/card_settings.h"

#include <set>

#include "base/result.h"
#include "grant/grant.h"
#include "protocol/text.h"

namespace cgpu {

namespace {

constexpr const char* kMaxInst = "max_inst";
constexpr const char* kPolicy = "policy";
constexpr const char* kChosen = "chosen";
constexpr const char* kPrioRatio = "prio_ratio";

bool Take(const std::string& word, std::uint64_t least, std::uint64_t most,
          std::optional<unsigned>& value) {
  std::uint64_t number = 0;
  if (!ToNumber(word, 10, most, number) || number < least) {
    return false;
  }
  value = static_cast<unsigned>(number);
  return true;
}

bool Take(const std::string& word, std::optional<governor::Policy>& value) {
  const auto policy = governor::ParsePolicy(word);
  if (policy.ok()) {
    value = *policy;
  }
  return policy.ok();
}

// Takes a line. Returns false for a line with a known key and a bad value.
bool TakeLine(const Words& line, CardSettings& settings) {
  const std::string& key = line[0];
  if (key != kMaxInst && key != kPolicy && key != kChosen && key != kPrioRatio) {
    return true;
  }
  if (line.size() != 2) {
    return false;
  }
  if (key == kMaxInst) {
    return Take(line[1], 1, kMostMaxInst, settings.max_inst);
  }
  if (key == kPrioRatio) {
    return Take(line[1], governor::kLeastPrioRatio, governor::kMostPrioRatio, settings.prio_ratio);
  }
  return Take(line[1], key == kPolicy ? settings.policy : settings.chosen);
}

}  // namespace

std::string EncodeCardSettings(const CardSettings& settings) {
  std::string text;
  if (settings.max_inst) {
    text += JoinLine({kMaxInst, std::to_string(*settings.max_inst)});
  }
  if (settings.policy) {
    text += JoinLine({kPolicy, std::string(NameOf(*settings.policy))});
  }
  if (settings.chosen) {
    text += JoinLine({kChosen, std::string(NameOf(*settings.chosen))});
  }
  if (settings.prio_ratio) {
    text += JoinLine({kPrioRatio, std::to_string(*settings.prio_ratio)});
  }
  return text + ".\n";
}

Result<CardSettings> DecodeCardSettings(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(const auto lines, SplitLines(text));
  if (lines.empty() || lines.back() != Words{"."}) {
    return Error{Code::kInvalid, 0, "a card's settings are cut off", {}};
  }
  CardSettings settings;
  std::set<std::string> seen;
  for (const Words& line : lines) {
    if (!seen.insert(line[0]).second || !TakeLine(line, settings)) {
      return Error{Code::kInvalid, 0, "a card's settings have a bad line: " + JoinLine(line), {}};
    }
  }
  return settings;
}

}  // namespace cgpu
