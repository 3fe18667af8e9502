#include "install/docker.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace cgpu::install {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRuntimes = "runtimes";
constexpr const char* kDefault = "default-runtime";

Error NotJson(const Json::exception& error) {
  std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line ..."
  what.erase(0, what.find("] ") == std::string::npos ? 0 : what.find("] ") + 2);
  return Error{Code::kInvalid, 0, "is not valid JSON: " + what,
               "JSON has no comments and no comma after the last member"};
}

// Parses a text; a blank one counts as an empty object.
Result<Json> Parse(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Json::object();
  }
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) {
      return Error{Code::kInvalid, 0, "is not a JSON object", {}};
    }
    if (json.contains(kRuntimes) && !json[kRuntimes].is_object()) {
      return Error{Code::kInvalid, 0, "has something else than an object as \"runtimes\"", {}};
    }
    return json;
  } catch (const Json::exception& error) {
    return NotJson(error);
  }
}

// Prints the document with the indentation of the text that it was parsed from.
Result<std::string> Printed(const Json& json, const std::string& text) {
  const std::size_t line = std::min(text.find('\n'), text.size() - 1) + 1;
  const std::size_t end = std::min(text.find_first_not_of(" \t", line), text.size());
  const int indent = end > line && text[end - 1] == text[line] ? static_cast<int>(end - line) : 4;
  try {
    return json.dump(indent, end > line ? text[line] : ' ') + "\n";
  } catch (const Json::exception&) {
    return Error{Code::kInvalid, 0, "would get a text that is not UTF-8", "use another path"};
  }
}

bool HasRuntime(const Json& json, const std::string& name) {
  return json.contains(kRuntimes) && json.at(kRuntimes).contains(name);
}

std::optional<std::string> String(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object.at(key).is_string()
             ? std::optional(object.at(key).get<std::string>())
             : std::nullopt;
}

Entry EntryOf(const Json& json) {
  Entry entry;
  if (HasRuntime(json, "cgpu")) {
    entry.path = String(json.at(kRuntimes).at("cgpu"), "path").value_or("");
  }
  entry.is_default = String(json, kDefault) == "cgpu";
  return entry;
}

// Returns the earlier default, if it can still be that: a name that the file once had and has no
// more would keep Docker from starting.
std::optional<std::string> EarlierDefault(const Json& json, const Json& original) {
  const auto name = String(original, kDefault);
  const bool gone = name.has_value() && HasRuntime(original, *name) && !HasRuntime(json, *name);
  return gone || name == "cgpu" ? std::nullopt : name;
}

}  // namespace

Result<Entry> FindInDocker(const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto json, Parse(text));
  return EntryOf(json);
}

Result<Edit> AddToDocker(const std::optional<std::string>& text, const std::string& path,
                         bool set_default) {
  CGPU_ASSIGN_OR_RETURN(auto json, Parse(text.value_or("")));
  const Entry entry = EntryOf(json);
  if (entry.path.has_value() && (entry.is_default || !set_default)) {
    return Edit{text, {}};
  }
  Json added = {{kRuntimes, {{"cgpu", {{"path", path}}}}}};
  if (set_default) {
    added[kDefault] = "cgpu";
  }
  json.merge_patch(added);
  CGPU_ASSIGN_OR_RETURN(auto after, Printed(json, text.value_or("")));
  CGPU_ASSIGN_OR_RETURN(auto gets, Printed(added, ""));
  return Edit{std::move(after), std::move(gets)};
}

Result<std::optional<std::string>> RemoveFromDocker(const std::string& text,
                                                    const std::optional<std::string>& original) {
  CGPU_ASSIGN_OR_RETURN(auto json, Parse(text));
  const Entry entry = EntryOf(json);
  if (!entry.path.has_value() && !entry.is_default) {
    return std::optional(text);
  }
  const Json before = Parse(original.value_or("")).value_or(Json::object());
  if (original.has_value() && !HasRuntime(before, "cgpu")) {
    const auto again = AddToDocker(original, entry.path.value_or(""), entry.is_default);
    if (again.ok() && again->after == text) {  // nobody has changed it since
      return original;
    }
  }
  if (entry.is_default) {
    if (const auto earlier = EarlierDefault(json, before); earlier.has_value()) {
      json[kDefault] = *earlier;
    } else {
      json.erase(kDefault);
    }
  }
  if (entry.path.has_value()) {
    json[kRuntimes].erase("cgpu");
    if (json[kRuntimes].empty() && !before.contains(kRuntimes)) {
      json.erase(kRuntimes);
    }
  }
  if (json.empty() && !original.has_value()) {
    return std::optional<std::string>();
  }
  CGPU_ASSIGN_OR_RETURN(auto rest, Printed(json, text));
  return std::optional(std::move(rest));
}

}  // namespace cgpu::install
