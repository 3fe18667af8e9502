#include "install/docker.h"

#include "base/result.h"
#include "install/json_text.h"

namespace cgpu::install {
namespace {

const Path kRuntimes = {"runtimes"};
const Path kRuntime = {"runtimes", "cgpu"};
const Path kProgram = {"runtimes", "cgpu", "path"};
const Path kDefault = {"default-runtime"};

Entry EntryOf(const JsonText& json) {
  Entry entry;
  if (json.Has(kRuntime)) {
    entry.path = json.String(kProgram).value_or("");
  }
  entry.is_default = json.String(kDefault) == "cgpu";
  return entry;
}

// Returns the earlier default, if it can still be that: a name that the file once had and has no
// more would keep Docker from starting.
std::optional<std::string> EarlierDefault(const JsonText& json,
                                          const std::optional<JsonText>& original) {
  const auto name = original.has_value() ? original->String(kDefault) : std::nullopt;
  const bool gone =
      name.has_value() && original->Has({"runtimes", *name}) && !json.Has({"runtimes", *name});
  return gone || name == "cgpu" ? std::nullopt : name;
}

}  // namespace

Result<Entry> FindInDocker(const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto json, JsonText::Parse(text));
  return EntryOf(json);
}

Result<std::string> AddToDocker(const std::string& text, const std::string& path,
                                bool set_default) {
  auto json = JsonText::Parse(text);
  if (json.ok() && !EntryOf(*json).path.has_value()) {
    json = json->Set(kProgram, path);
  }
  if (json.ok() && set_default && !EntryOf(*json).is_default) {
    json = json->Set(kDefault, "cgpu");
  }
  if (!json.ok()) {
    return json.error();
  }
  return json->text();
}

Result<std::string> RemoveFromDocker(const std::string& text,
                                     const std::optional<std::string>& original) {
  auto json = JsonText::Parse(text);
  std::optional<JsonText> before;
  if (original.has_value()) {
    if (auto parsed = JsonText::Parse(*original); parsed.ok()) {
      before = *parsed;
    }
  }
  if (json.ok() && EntryOf(*json).is_default) {
    const auto earlier = EarlierDefault(*json, before);
    json = earlier.has_value() ? json->Set(kDefault, *earlier) : json->Remove(kDefault);
  }
  if (json.ok()) {
    json = json->Remove(kRuntime);
  }
  if (json.ok() && json->IsEmpty(kRuntimes) && !(before.has_value() && before->Has(kRuntimes))) {
    json = json->Remove(kRuntimes);
  }
  if (!json.ok()) {
    return json.error();
  }
  return json->text();
}

bool IsEmptyForDocker(const std::string& text) {
  const auto json = JsonText::Parse(text);
  return json.ok() && json->IsEmpty({});
}

}  // namespace cgpu::install
