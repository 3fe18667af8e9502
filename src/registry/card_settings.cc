#include "registry/card_settings.h"

#include <set>

#include "grant/grant.h"
#include "registry/text.h"

namespace cgpu {

std::string EncodeCardSettings(const CardSettings& settings) {
  std::string text;
  if (settings.max_inst) {
    text += JoinLine({"max_inst", std::to_string(*settings.max_inst)});
  }
  return text + ".\n";
}

Result<CardSettings> DecodeCardSettings(std::string_view text) {
  const auto lines = SplitLines(text);
  if (!lines.ok()) {
    return lines.error();
  }
  if (lines->empty() || lines->back() != Words{"."}) {
    return Error{Code::kInvalid, 0, "a card's settings are cut off", {}};
  }
  CardSettings settings;
  std::set<std::string> seen;
  for (const Words& line : *lines) {
    std::uint64_t number = 0;
    const bool max_inst = line[0] == "max_inst";
    if (!seen.insert(line[0]).second ||
        (max_inst &&
         (line.size() != 2 || !ToNumber(line[1], 10, kMostMaxInst, number) || number == 0))) {
      return Error{Code::kInvalid, 0, "a card's settings have a bad line: " + JoinLine(line), {}};
    }
    if (max_inst) {
      settings.max_inst = static_cast<unsigned>(number);
    }
  }
  return settings;
}

}  // namespace cgpu
