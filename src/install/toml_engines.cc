#include "install/toml_engines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "install/toml_text.h"

namespace cgpu::install {
namespace {

// Places in an engine's file that matter here.
struct Layout {
  Path default_key;
  Path runtimes;
  Path program;  // below a runtime's own table; empty: the runtime itself, an array of paths
};

using Values = std::vector<std::pair<std::string, std::string>>;

Path operator+(Path path, const Path& more) {
  path.insert(path.end(), more.begin(), more.end());
  return path;
}

// Returns the version. A file of containerd without one is of version 1; a file that says nothing
// at all may as well become one of version 2.
Result<std::int64_t> VersionOf(const TomlText& toml) {
  if (!toml.Has({"version"})) {
    return toml.Keys({}).empty() ? 2 : 1;
  }
  const std::int64_t version = toml.Integer({"version"}).value_or(0);
  if (version < 1 || version > 4) {
    return Error{Code::kUnsupported, 0, "has a version that is not 1, 2, 3 or 4",
                 "cgpu does not know where the runtimes are in it"};
  }
  return version;
}

// Returns containerd's name of its CRI plugin (docs/PLUGINS.md, docs/containerd-2.0.md); version 4
// changed the server's settings alone.
Path CriPlugin(std::int64_t version) {
  static constexpr std::array<const char*, 5> kNames = {"", "cri", "io.containerd.grpc.v1.cri",
                                                        "io.containerd.cri.v1.runtime",
                                                        "io.containerd.cri.v1.runtime"};
  return {"plugins", kNames[static_cast<std::size_t>(version)]};
}

Result<Layout> LayoutOf(Engine engine, const TomlText& toml) {
  if (engine == Engine::kCrio) {
    return Layout{
        {"crio", "runtime", "default_runtime"}, {"crio", "runtime", "runtimes"}, {"runtime_path"}};
  }
  if (engine == Engine::kPodman) {
    return Layout{{"engine", "runtime"}, {"engine", "runtimes"}, {}};
  }
  CGPU_ASSIGN_OR_RETURN(const auto version, VersionOf(toml));
  const Path containerd = CriPlugin(version) + Path{"containerd"};
  return Layout{containerd + Path{"default_runtime_name"},
                containerd + Path{"runtimes"},
                {"options", "BinaryName"}};
}

Entry EntryOf(const TomlText& toml, const Layout& layout) {
  Entry entry;
  const Path runtime = layout.runtimes + Path{"cgpu"};
  if (toml.Has(runtime)) {
    const auto list = toml.Strings(runtime);
    entry.path = layout.program.empty() && !list.empty()
                     ? list.front()
                     : toml.String(runtime + layout.program).value_or("");
  }
  entry.is_default = toml.String(layout.default_key) == "cgpu";
  return entry;
}

// Returns what an entry of containerd takes over from the default entry, or from runc's: the same
// containers, with another program below the same shim.
TomlSection LikeRunc(const TomlText& toml, const Layout& layout, Values& options) {
  TomlSection section;
  for (const std::string& name :
       {toml.String(layout.default_key).value_or("runc"), std::string("runc")}) {
    const Path runtime = layout.runtimes + Path{name};
    if (toml.String(runtime + Path{"runtime_type"}) == "io.containerd.runc.v2") {
      section.values = toml.Values(runtime);
      options = toml.Values(runtime + Path{"options"});
      break;
    }
  }
  // Settings of the program itself, and names that containerd has given up, stay out.
  std::erase_if(section.values, [](const auto& value) {
    return value.first == "runtime_type" || value.first == "runtime_root" ||
           value.first == "runtime_engine" || value.first == "runtime_path";
  });
  std::erase_if(options, [](const auto& value) {
    return value.first == "BinaryName" || value.first == "Root";
  });
  return section;
}

Result<TomlText> AddToContainerd(const TomlText& toml, const Layout& layout,
                                 const std::string& path, const TomlText* like) {
  const Path runtime = layout.runtimes + Path{"cgpu"};
  const std::pair<std::string, std::string> type = {"runtime_type",
                                                    TomlText::Quoted("io.containerd.runc.v2")};
  std::vector<TomlSection> sections;
  if (toml.Keys({}).empty()) {
    sections.push_back({{}, {{"version", "2"}}});
  }
  Values options;
  TomlSection section = LikeRunc(like == nullptr ? toml : *like, layout, options);
  section.path = runtime;
  section.values.insert(section.values.begin(), type);
  options.insert(options.begin(), {"BinaryName", TomlText::Quoted(path)});
  sections.push_back(section);
  sections.push_back({runtime + Path{"options"}, options});
  // containerd 1 has its built-in runc only while a file names no runtime.
  const bool built_in = (like == nullptr ? toml : *like).Keys(layout.runtimes).empty();
  if (built_in && *VersionOf(toml) < 3) {
    sections.push_back({layout.runtimes + Path{"runc"}, {type}});
  }
  return toml.Append(sections);
}

Result<TomlText> AddRuntime(Engine engine, const TomlText& toml, const Layout& layout,
                            const std::string& path, const TomlText* like) {
  const Path runtime = layout.runtimes + Path{"cgpu"};
  if (engine == Engine::kPodman) {
    return toml.Set(runtime, "[ " + TomlText::Quoted(path) + " ]");
  }
  if (engine == Engine::kCrio) {
    return toml.Append(
        {{runtime,
          {{"runtime_path", TomlText::Quoted(path)}, {"runtime_type", TomlText::Quoted("oci")}}}});
  }
  return AddToContainerd(toml, layout, path, like);
}

// Returns the earlier default, if it can still be that.
std::optional<std::string> EarlierDefault(const TomlText& toml, const Layout& layout,
                                          const std::optional<TomlText>& original) {
  const auto name = original.has_value() ? original->String(layout.default_key) : std::nullopt;
  const bool gone = name.has_value() && original->Has(layout.runtimes + Path{*name}) &&
                    !toml.Has(layout.runtimes + Path{*name});
  return gone || name == "cgpu" ? std::nullopt : name;
}

// Returns whether the runc there is the one that AddToContainerd() wrote. False where other
// runtimes need it by now or it was changed.
bool IsOurRunc(const TomlText& toml, const Layout& layout,
               const std::optional<TomlText>& original) {
  const Path runc = layout.runtimes + Path{"runc"};
  return layout.program.size() == 2 &&
         toml.Keys(layout.runtimes) == std::vector<std::string>{"runc"} &&
         toml.Keys(runc) == std::vector<std::string>{"runtime_type"} &&
         !(original.has_value() && original->Has(runc));
}

// Removes tables that have become empty, from `path` upwards, unless they were there before.
Result<TomlText> Pruned(TomlText toml, Path path, const std::optional<TomlText>& original) {
  for (; !path.empty(); path.pop_back()) {
    const bool ours = !(original.has_value() && original->Has(path));
    if (toml.Has(path) && toml.Keys(path).empty() && ours) {
      auto without = toml.Remove(path);
      if (!without.ok()) {
        return without;
      }
      toml = std::move(*without);
    }
  }
  return toml;
}

Result<TomlText> RemoveRuntime(TomlText toml, const Layout& layout,
                               const std::optional<TomlText>& original) {
  auto result = Result<TomlText>(toml);
  if (EntryOf(toml, layout).is_default) {
    const auto earlier = EarlierDefault(toml, layout, original);
    result = earlier.has_value() ? toml.Set(layout.default_key, TomlText::Quoted(*earlier))
                                 : toml.Remove(layout.default_key);
  }
  if (result.ok()) {
    result = result->Remove(layout.runtimes + Path{"cgpu"});
  }
  if (result.ok() && IsOurRunc(*result, layout, original)) {
    result = result->Remove(layout.runtimes + Path{"runc"});
  }
  const Path parent(layout.default_key.begin(), layout.default_key.end() - 1);
  for (const Path& path : {layout.runtimes, parent}) {
    if (result.ok()) {
      result = Pruned(*result, path, original);
    }
  }
  return result;
}

}  // namespace

Result<Entry> FindInToml(Engine engine, const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  CGPU_ASSIGN_OR_RETURN(const auto layout, LayoutOf(engine, toml));
  return EntryOf(toml, layout);
}

Result<std::string> AddToToml(Engine engine, const std::string& text, const std::string& path,
                              bool set_default, const std::string* like) {
  auto toml = TomlText::Parse(text);
  if (!toml.ok()) {
    return toml.error();
  }
  CGPU_ASSIGN_OR_RETURN(const auto layout, LayoutOf(engine, *toml));
  std::optional<TomlText> other;
  if (like != nullptr) {
    CGPU_ASSIGN_OR_RETURN(other, TomlText::Parse(*like));
  }
  if (!EntryOf(*toml, layout).path.has_value()) {
    toml = AddRuntime(engine, *toml, layout, path, other.has_value() ? &*other : nullptr);
  }
  if (toml.ok() && set_default && !EntryOf(*toml, layout).is_default) {
    toml = toml->Set(layout.default_key, TomlText::Quoted("cgpu"));
  }
  if (!toml.ok()) {
    return toml.error();
  }
  return toml->text();
}

Result<std::string> RemoveFromToml(Engine engine, const std::string& text,
                                   const std::optional<std::string>& original) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  CGPU_ASSIGN_OR_RETURN(const auto layout, LayoutOf(engine, toml));
  std::optional<TomlText> before;
  if (original.has_value()) {
    if (auto parsed = TomlText::Parse(*original); parsed.ok()) {
      before = std::move(*parsed);
    }
  }
  auto rest = RemoveRuntime(toml, layout, before);
  const bool only_version = rest.ok() && engine == Engine::kContainerd &&
                            rest->Keys({}) == std::vector<std::string>{"version"};
  if (only_version && !(before.has_value() && before->Has({"version"}))) {
    rest = rest->Remove({"version"});
  }
  if (!rest.ok()) {
    return rest.error();
  }
  return rest->text();
}

Result<Imports> ImportsOf(const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  CGPU_ASSIGN_OR_RETURN(const auto version, VersionOf(toml));
  return Imports{toml.Strings({"imports"}), version >= 3};
}

Result<bool> ConfiguresCri(const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  return std::ranges::any_of(std::array<std::int64_t, 3>{1, 2, 3},
                             [&](std::int64_t version) { return toml.Has(CriPlugin(version)); });
}

Result<std::string> EmptyImport(const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  CGPU_ASSIGN_OR_RETURN(const auto version, VersionOf(toml));
  return "version = " + std::to_string(version) + "\n";
}

bool DisablesCri(const std::string& text) {
  const auto toml = TomlText::Parse(text);
  const auto disabled =
      toml.ok() ? toml->Strings({"disabled_plugins"}) : std::vector<std::string>();
  return std::ranges::any_of(disabled, [](const std::string& name) {
    return name == "cri" || name == "io.containerd.grpc.v1.cri" ||
           name == "io.containerd.cri.v1.runtime";
  });
}

}  // namespace cgpu::install
