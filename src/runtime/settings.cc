#include "runtime/settings.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "protocol/creation.h"
#include "protocol/text.h"
#include "rm/control_route.h"
#include "rm/control_table.h"

namespace cgpu {
namespace {

Error Wrong(std::string what, std::string hint) {
  return Error{Code::kInvalid, 0, std::move(what), std::move(hint)};
}

// Settings that are a text, some of them an absolute path.
struct TextSetting {
  std::string_view name;
  std::string Settings::* value;
  bool path = false;
};
constexpr TextSetting kTexts[] = {
    {"node", &Settings::node},
    {"runtime", &Settings::runtime},
    {"group", &Settings::group},
    {"socket", &Settings::socket, true},
    {"exporter_listen", &Settings::exporter_listen},
    {"exporter_token_file", &Settings::exporter_token_file, true},
    {"exporter_tls_cert", &Settings::exporter_tls_cert, true},
    {"exporter_tls_key", &Settings::exporter_tls_key, true},
};

// Settings that are one of two words; `on` is the one that means true.
struct Switch {
  std::string_view name;
  bool Settings::* value;
  std::string_view first, second, on;
};
constexpr Switch kSwitches[] = {
    {"unmanaged", &Settings::refuse_unmanaged, "allow", "refuse", "refuse"},
    {"mode", &Settings::share, "cgpu", "share", "share"},
    {"kubernetes", &Settings::kubernetes, "true", "false", "true"},
    {"calibrate", &Settings::calibrate, "true", "false", "true"},
    {"log", &Settings::log_json, "text", "json", "json"},
    {"exporter_dcgm", &Settings::exporter_dcgm, "true", "false", "true"},
};

Result<> TakeMaxInst(const std::string& value, Settings& settings) {
  return ToUnsigned(value, settings.max_inst) && settings.max_inst >= 1 &&
                 settings.max_inst <= kMostMaxInst
             ? Result<>()
             : Wrong(
                   "max_inst is no number from 1 to " + std::to_string(kMostMaxInst) + ": " + value,
                   {});
}

Result<> TakeAudit(const std::string& value, Settings& settings) {
  if (value == "off") {
    settings.audit.reset();
    return {};
  }
  return ToUnsigned(value, settings.audit.emplace())
             ? Result<>()
             : Wrong("audit is neither a number of seconds nor off: " + value, {});
}

// Takes "0x2080a0ff/24 0x20810109/4": what a log says of a control that was refused. A list of
// exact numbers and sizes, so that root and no tenant chooses what reaches the firmware.
Result<> TakeFirmware(const std::string& value, Settings& settings) {
  std::istringstream words(value);
  for (std::string word; words >> word;) {
    const std::size_t slash = word.find('/');
    std::uint64_t command = 0;
    FirmwareControl& control = settings.firmware.emplace_back();
    const bool sound = word.starts_with("0x") && slash != std::string::npos &&
                       ToNumber(std::string_view(word).substr(2, slash - 2), 16, ~0U, command) &&
                       ToUnsigned(word.substr(slash + 1), control.bytes);
    control.command = static_cast<unsigned>(command);
    if (!sound || !rm::IsFirmwareControl(control.command) || control.bytes == 0 ||
        control.bytes > rm::kMaxFirmwareBytes || settings.firmware.size() > kMostFirmwareControls) {
      return Wrong("firmware has no control of a GPU's firmware: " + word,
                   "up to " + std::to_string(kMostFirmwareControls) +
                       " of them as `cgpu doctor` names them: 0x2080a0ff/24, where 24 is the bytes "
                       "of the parameters, 1 to " +
                       std::to_string(rm::kMaxFirmwareBytes));
    }
  }
  return {};
}

constexpr std::string_view kPolicyOf = "policy ";

Result<> TakePolicy(const std::string& uuid, const std::string& value, Settings& settings) {
  if (!uuid.starts_with("GPU-")) {
    return Wrong("\"" + uuid + "\" is no GPU's UUID",
                 "a policy is set for a UUID, as nvidia-smi -L has it: policy GPU-...: fixed; or "
                 "with: cgpu policy");
  }
  CGPU_ASSIGN_OR_RETURN(settings.policies[uuid], governor::ParsePolicy(value));
  return {};
}

Error NoSetting(const std::string& key) {
  std::string names;
  for (const std::string_view name : kSettingNames) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return Wrong("\"" + key + "\" is no setting",
               "settings are " + names + " and policy with a GPU's UUID");
}

Result<> Take(const std::string& key, const std::string& value, Settings& settings) {
  if (value.empty() && key != "node") {
    return Wrong(key + " is empty", "leave it out for the default");
  }
  const auto* const text = std::ranges::find(kTexts, key, &TextSetting::name);
  if (text != std::end(kTexts)) {
    settings.*text->value = value;
    return !text->path || value[0] == '/' ? Result<>()
                                          : Wrong(key + " is no absolute path: " + value, {});
  }
  const auto* const found = std::ranges::find(kSwitches, key, &Switch::name);
  if (found != std::end(kSwitches)) {
    settings.*found->value = value == found->on;
    return value == found->first || value == found->second
               ? Result<>()
               : Wrong(key + " is neither " + std::string(found->first) + " nor " +
                           std::string(found->second) + ": " + value,
                       {});
  }
  if (key == "audit") {
    return TakeAudit(value, settings);
  }
  if (key == "max_inst") {
    return TakeMaxInst(value, settings);
  }
  if (key == "firmware") {
    return TakeFirmware(value, settings);
  }
  if (key.starts_with(kPolicyOf)) {
    return TakePolicy(key.substr(kPolicyOf.size()), value, settings);
  }
  return NoSetting(key);
}

// Reads the settings. Throws what yaml-cpp throws.
Result<Settings> Read(std::string_view text) {
  Settings settings;
  const YAML::Node root = YAML::Load(std::string(text));
  if (!root.IsDefined() || root.IsNull()) {
    return settings;
  }
  if (!root.IsMap()) {
    return Wrong("it is no list of `setting: value`", {});
  }
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const bool scalar = entry.second.IsScalar() || entry.second.IsNull();
    if (!entry.first.IsScalar() || !scalar) {
      return Wrong("a setting is no plain `setting: value`", {});
    }
    if (!seen.insert(entry.first.Scalar()).second) {
      return Wrong(entry.first.Scalar() + " is set twice", "leave one");
    }
    CGPU_TRY(
        Take(entry.first.Scalar(), entry.second.IsNull() ? "" : entry.second.Scalar(), settings));
  }
  if (settings.exporter_tls_cert.empty() != settings.exporter_tls_key.empty()) {
    return Wrong("one of exporter_tls_cert and exporter_tls_key is missing", "set both, or none");
  }
  return settings;
}

}  // namespace

Settings::Settings() : socket(kDaemonSocket) {}

Result<Settings> ParseSettings(std::string_view text) {
  try {
    return Read(text);
  } catch (
      const YAML::Exception& exception) {  // caught here alone: the library reports by exceptions
    return Wrong(exception.what(), {});
  }
}

Result<Settings> ReadSettings(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) {
    return text.error().code == Code::kNotFound ? Settings() : Result<Settings>(text.error());
  }
  auto settings = ParseSettings(*text);
  if (!settings.ok()) {
    Error error = settings.error();
    error.what = path + ": " + error.what;
    return error;
  }
  return settings;
}

}  // namespace cgpu
