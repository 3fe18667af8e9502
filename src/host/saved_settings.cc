#include "host/saved_settings.h"

#include "base/file.h"
#include "protocol/text.h"

namespace cgpu {
namespace {

constexpr const char* kPolicy = "policy";
constexpr const char* kMaxInst = "max_inst";
constexpr const char* kPrioRatio = "prio_ratio";
constexpr const char* kAuto = "auto";

Result<unsigned> Parse(std::string_view word, const char* what, unsigned least, unsigned most) {
  std::uint64_t number = 0;
  if (!ToNumber(word, 10, most, number) || number < least) {
    return Error{Code::kInvalid, 0,
                 std::string(what) + " is no number from " + std::to_string(least) + " to " +
                     std::to_string(most) + ": " + std::string(word),
                 "give one of these"};
  }
  return static_cast<unsigned>(number);
}

Result<> Take(const Words& line, SavedSettings& settings) {
  if (line[1] == kPolicy) {
    CGPU_ASSIGN_OR_RETURN(settings.policy, ParsePolicyOrAuto(line[2]));
  } else if (line[1] == kMaxInst) {
    CGPU_ASSIGN_OR_RETURN(settings.max_inst, ParseMaxInst(line[2]));
  } else if (line[1] == kPrioRatio) {
    CGPU_ASSIGN_OR_RETURN(settings.prio_ratio, ParsePrioRatio(line[2]));
  }
  return {};
}

}  // namespace

Result<unsigned> ParseMaxInst(std::string_view word) {
  return Parse(word, "max-inst", 1, kMostMaxInst);
}

Result<unsigned> ParsePrioRatio(std::string_view word) {
  return Parse(word, "prio-ratio", governor::kLeastPrioRatio, governor::kMostPrioRatio);
}

Result<std::optional<governor::Policy>> ParsePolicyOrAuto(const std::string& word) {
  if (word == kAuto) {
    return std::optional<governor::Policy>();
  }
  CGPU_ASSIGN_OR_RETURN(const auto policy, governor::ParsePolicy(word));
  return std::optional(policy);
}

SavedSettings Merged(SavedSettings before, const SavedSettings& change) {
  before.policy = change.policy ? change.policy : before.policy;
  before.max_inst = change.max_inst ? change.max_inst : before.max_inst;
  before.prio_ratio = change.prio_ratio ? change.prio_ratio : before.prio_ratio;
  return before;
}

std::string EncodeSaved(const SavedByGpu& saved) {
  std::string text;
  for (const auto& [uuid, settings] : saved) {
    if (settings.policy) {
      const auto& policy = *settings.policy;
      text += JoinLine({uuid, kPolicy, policy ? std::string(NameOf(*policy)) : kAuto});
    }
    if (settings.max_inst) {
      text += JoinLine({uuid, kMaxInst, std::to_string(*settings.max_inst)});
    }
    if (settings.prio_ratio) {
      text += JoinLine({uuid, kPrioRatio, std::to_string(*settings.prio_ratio)});
    }
  }
  return text + ".\n";
}

Result<SavedByGpu> DecodeSaved(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(auto lines, SplitLines(text));
  if (lines.empty() || lines.back() != Words{"."}) {
    return Error{Code::kInvalid, 0, "the settings of GPUs are cut off", {}};
  }
  lines.pop_back();
  SavedByGpu saved;
  for (const Words& line : lines) {
    if (line.size() != 3 || !IsName(line[0])) {
      return Error{
          Code::kInvalid, 0, "the settings of GPUs have a bad line: " + JoinLine(line), {}};
    }
    CGPU_TRY(Take(line, saved[line[0]]));
  }
  return saved;
}

Result<SavedByGpu> ReadSaved(const std::string& path) {
  const auto text = ReadFile(path, kMaxMessage);
  if (!text.ok()) {
    return text.error().code == Code::kNotFound ? SavedByGpu() : Result<SavedByGpu>(text.error());
  }
  auto saved = DecodeSaved(*text);
  if (!saved.ok()) {
    return Error{saved.error().code, 0, path + ": " + saved.error().what,
                 "remove that file: config.yaml holds then"};
  }
  return saved;
}

Result<> WriteSaved(const std::string& path, const SavedByGpu& saved) {
  CGPU_TRY(MakeDirectories(path.substr(0, path.rfind('/'))));
  return ReplaceFile(path, EncodeSaved(saved), 0644, true);
}

}  // namespace cgpu
