#include "runtime/seccomp_profile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "json/json.h"

namespace cgpu {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxProfileDepth = 16;
constexpr std::uint32_t kArguments = 6;  // arguments of a system call
constexpr std::array kComparisons = {"SCMP_CMP_NE",       "SCMP_CMP_LT", "SCMP_CMP_LE",
                                     "SCMP_CMP_EQ",       "SCMP_CMP_GE", "SCMP_CMP_GT",
                                     "SCMP_CMP_MASKED_EQ"};

Error WrongProfile(std::string what) {
  return Error{Code::kInvalid, 0, "the container's seccomp profile " + std::move(what),
               "it must be as linux.seccomp of OCI runtime-spec's config-linux.md"};
}

Result<> ReadText(const Json& object, const char* name, std::string* text) {
  const Json& field = At(object, name);
  if (field.is_null()) {
    return {};
  }
  if (!field.is_string()) {
    return WrongProfile(std::string("has a ") + name + " that is no string");
  }
  *text = field.get<std::string>();
  return {};
}

Result<> ReadNumber(const Json& object, const char* name, std::uint64_t most,
                    std::uint64_t* number) {
  const Json& field = At(object, name);
  if (field.is_null()) {
    return {};
  }
  if (!field.is_number_unsigned() || field.get<std::uint64_t>() > most) {
    return WrongProfile(std::string("has ") + field.dump() + " as " + name);
  }
  *number = field.get<std::uint64_t>();
  return {};
}

Result<> ReadErrno(const Json& object, const char* name, std::optional<std::uint32_t>* errno_ret) {
  if (At(object, name).is_null()) {
    return {};
  }
  std::uint64_t number = 0;
  CGPU_TRY(ReadNumber(object, name, std::numeric_limits<std::uint32_t>::max(), &number));
  *errno_ret = static_cast<std::uint32_t>(number);
  return {};
}

Result<> ReadTexts(const Json& object, const char* name, std::vector<std::string>* texts) {
  const Json& field = At(object, name);
  if (field.is_null()) {
    return {};
  }
  if (!field.is_array()) {
    return WrongProfile(std::string("has ") + name + " that are no list");
  }
  for (const Json& one : field) {
    if (!one.is_string()) {
      return WrongProfile(std::string("has ") + name + " that are no strings");
    }
    texts->push_back(one.get<std::string>());
  }
  return {};
}

// Refuses what is no name of a system call, action, flag or architecture. Runtimes take a name up
// to its first NUL, so "ioctl\0" is ioctl to them.
Result<> CheckWord(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  return plain ? Result<>() : WrongProfile("has a name with other characters than names have");
}

Result<SeccompCondition> ReadCondition(const Json& object) {
  if (!object.is_object()) {
    return WrongProfile("has a condition that is no object");
  }
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  SeccompCondition condition;
  std::uint64_t index = 0;
  CGPU_TRY(ReadNumber(object, "index", kArguments - 1, &index));
  CGPU_TRY(ReadNumber(object, "value", kAny, &condition.value));
  CGPU_TRY(ReadNumber(object, "valueTwo", kAny, &condition.value_two));
  CGPU_TRY(ReadText(object, "op", &condition.op));
  condition.index = static_cast<std::uint32_t>(index);
  if (std::ranges::find(kComparisons, condition.op) == kComparisons.end()) {
    return WrongProfile("compares with '" + condition.op + "'");
  }
  return condition;
}

Result<SeccompRule> ReadRule(const Json& object) {
  if (!object.is_object()) {
    return WrongProfile("has a rule that is no object");
  }
  SeccompRule rule;
  CGPU_TRY(ReadTexts(object, "names", &rule.names));
  CGPU_TRY(ReadText(object, "action", &rule.action));
  CGPU_TRY(ReadErrno(object, "errnoRet", &rule.errno_ret));
  for (const std::string& name : rule.names) {
    CGPU_TRY(CheckWord(name));
  }
  CGPU_TRY(CheckWord(rule.action));
  if (rule.names.empty() || rule.action.empty()) {
    return WrongProfile("has a rule without names or an action");
  }
  const Json& args = At(object, "args");
  if (!args.is_null() && !args.is_array()) {
    return WrongProfile("has args that are no list");
  }
  for (const Json& one : args) {
    CGPU_ASSIGN_OR_RETURN(auto condition, ReadCondition(one));
    rule.args.push_back(std::move(condition));
  }
  return rule;
}

Json FormatRule(const SeccompRule& rule) {
  Json object = {{"names", rule.names}, {"action", rule.action}};
  if (rule.errno_ret) {
    object["errnoRet"] = *rule.errno_ret;
  }
  for (const SeccompCondition& condition : rule.args) {
    object["args"].push_back({{"index", condition.index},
                              {"value", condition.value},
                              {"valueTwo", condition.value_two},
                              {"op", condition.op}});
  }
  return object;
}

}  // namespace

Result<SeccompProfile> ParseSeccompProfile(std::string_view text) {
  if (text.size() > kMaxSeccompProfile || NestsDeeper(text, kMaxProfileDepth)) {
    return WrongProfile("is too large");
  }
  const Json parsed = ParseOrderedJson(text);
  if (!parsed.is_object()) {
    return WrongProfile(parsed.is_discarded() ? "is not JSON" : "is no JSON object");
  }
  SeccompProfile profile;
  CGPU_TRY(ReadText(parsed, "defaultAction", &profile.default_action));
  CGPU_TRY(ReadErrno(parsed, "defaultErrnoRet", &profile.default_errno_ret));
  CGPU_TRY(ReadTexts(parsed, "architectures", &profile.architectures));
  CGPU_TRY(ReadTexts(parsed, "flags", &profile.flags));
  CGPU_TRY(ReadText(parsed, "listenerPath", &profile.listener_path));
  CGPU_TRY(ReadText(parsed, "listenerMetadata", &profile.listener_metadata));
  CGPU_TRY(CheckWord(profile.default_action));
  for (const auto& words : {profile.architectures, profile.flags}) {
    for (const std::string& word : words) {
      CGPU_TRY(CheckWord(word));
    }
  }
  if (profile.default_action.empty()) {
    return WrongProfile("has no defaultAction");
  }
  const Json& rules = At(parsed, "syscalls");
  if (!rules.is_null() && !rules.is_array()) {
    return WrongProfile("has syscalls that are no list");
  }
  for (const Json& one : rules) {
    CGPU_ASSIGN_OR_RETURN(auto rule, ReadRule(one));
    profile.rules.push_back(std::move(rule));
  }
  return profile;
}

std::string FormatSeccompProfile(const SeccompProfile& profile) {
  Json object = {{"defaultAction", profile.default_action}};
  if (profile.default_errno_ret) {
    object["defaultErrnoRet"] = *profile.default_errno_ret;
  }
  const auto put = [&](const char* name, const auto& value) {
    if (!value.empty()) {
      object[name] = value;
    }
  };
  put("architectures", profile.architectures);
  put("flags", profile.flags);
  put("listenerPath", profile.listener_path);
  put("listenerMetadata", profile.listener_metadata);
  object["syscalls"] = Json::array();
  for (const SeccompRule& rule : profile.rules) {
    object["syscalls"].push_back(FormatRule(rule));
  }
  return object.dump();
}

}  // namespace cgpu
