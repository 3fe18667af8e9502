#include "runtime/settings.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "protocol/creation.h"

namespace cgpu {
namespace {

Error Wrong(std::string what, std::string hint) {
  return Error{Code::kInvalid, 0, std::move(what), std::move(hint)};
}

std::optional<unsigned> Number(const std::string& value) {
  unsigned number = 0;
  const char* const end = value.data() + value.size();
  const auto [tail, error] = std::from_chars(value.data(), end, number);
  return error == std::errc() && tail == end ? std::optional(number) : std::nullopt;
}

Result<> TakeMaxInst(const std::string& value, Settings& settings) {
  settings.max_inst = Number(value).value_or(0);
  return settings.max_inst >= 1 && settings.max_inst <= kMostMaxInst
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
  const auto seconds = Number(value);
  if (!seconds) {
    return Wrong("audit is neither a number of seconds nor off: " + value, {});
  }
  settings.audit = seconds;
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

constexpr std::string_view kExporter = "exporter_";

// Settings that name a file.
constexpr std::pair<std::string_view, std::string Settings::*> kFiles[] = {
    {"exporter_token_file", &Settings::exporter_token_file},
    {"exporter_tls_cert", &Settings::exporter_tls_cert},
    {"exporter_tls_key", &Settings::exporter_tls_key},
};

Result<> TakeExporter(const std::string& key, const std::string& value, Settings& settings) {
  if (key == "exporter_listen") {
    settings.exporter_listen = value;
    return {};
  }
  const auto* const file =
      std::ranges::find(kFiles, std::string_view(key), [](const auto& one) { return one.first; });
  if (file != std::end(kFiles)) {
    settings.*file->second = value;
    return value[0] == '/' ? Result<>() : Wrong(key + " is no absolute path: " + value, {});
  }
  if (key == "exporter_dcgm") {
    settings.exporter_dcgm = value == "true";
    return value == "true" || value == "false"
               ? Result<>()
               : Wrong("exporter_dcgm is neither true nor false: " + value, {});
  }
  return NoSetting(key);
}

Result<> Take(const std::string& key, const std::string& value, Settings& settings) {
  if (key == "node") {
    settings.node = value;
    return {};
  }
  if (value.empty()) {
    return Wrong(key + " is empty", "leave it out for the default");
  }
  if (key == "runtime") {
    settings.runtime = value;
    return {};
  }
  if (key == "group") {
    settings.group = value;
    return {};
  }
  if (key == "socket") {
    settings.socket = value;
    return value[0] == '/' ? Result<>() : Wrong("socket is no absolute path: " + value, {});
  }
  if (key == "unmanaged") {
    settings.refuse_unmanaged = value == "refuse";
    return value == "refuse" || value == "allow"
               ? Result<>()
               : Wrong("unmanaged is neither allow nor refuse: " + value, {});
  }
  if (key == "kubernetes") {
    settings.kubernetes = value == "true";
    return value == "true" || value == "false"
               ? Result<>()
               : Wrong("kubernetes is neither true nor false: " + value, {});
  }
  if (key == "audit") {
    return TakeAudit(value, settings);
  }
  if (key == "log") {
    settings.log_json = value == "json";
    return value == "json" || value == "text" ? Result<>()
                                              : Wrong("log is neither text nor json: " + value, {});
  }
  if (key == "max_inst") {
    return TakeMaxInst(value, settings);
  }
  if (key == "mode") {
    settings.share = value == "share";
    return value == "share" || value == "cgpu"
               ? Result<>()
               : Wrong("mode is neither cgpu nor share: " + value, {});
  }
  if (key.starts_with(kExporter)) {
    return TakeExporter(key, value, settings);
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
