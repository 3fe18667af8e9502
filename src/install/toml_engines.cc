#include "install/toml_engines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "install/toml_text.h"

namespace cgpu::install {
namespace {

// Places in an engine's file that matter here.
struct Layout {
  Path default_key;
  Path runtimes;
  Path program;      // below a runtime's own table; empty: the runtime itself, an array of paths
  bool old = false;  // a file of containerd 1, or of both versions
};

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kRuncV2 = "io.containerd.runc.v2";

std::pair<std::string, std::string> RuncType() {
  return {"runtime_type", TomlText::Quoted(kRuncV2)};
}

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
                {"options", "BinaryName"},
                version < 3};
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
    if (toml.String(runtime + Path{"runtime_type"}) == kRuncV2) {
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

std::vector<TomlSection> ContainerdSections(const TomlText& toml, const Layout& layout,
                                            const std::string& path, const TomlText& like) {
  Values options;
  TomlSection section = LikeRunc(like, layout, options);
  section.path = layout.runtimes + Path{"cgpu"};
  section.values.insert(section.values.begin(), RuncType());
  options.insert(options.begin(), {"BinaryName", TomlText::Quoted(path)});
  std::vector<TomlSection> sections = {section, {section.path + Path{"options"}, options}};
  if (toml.Keys({}).empty()) {
    const auto version = std::to_string(like.Integer({"version"}).value_or(2));
    sections.insert(sections.begin(), TomlSection{{}, {{"version", version}}});
  }
  // containerd 1 has its built-in runc only while a file names no runtime.
  if (like.Keys(layout.runtimes).empty() && layout.old) {
    sections.push_back(TomlSection{layout.runtimes + Path{"runc"}, {RuncType()}});
  }
  return sections;
}

// Returns what the text lacks. `like`: where an entry's settings are taken from.
std::vector<TomlSection> Missing(Engine engine, const TomlText& toml, const Layout& layout,
                                 const std::string& path, bool set_default, const TomlText& like) {
  std::vector<TomlSection> sections;
  const Entry entry = EntryOf(toml, layout);
  const std::string program = TomlText::Quoted(path);
  if (!entry.path.has_value() && engine == Engine::kPodman) {
    sections = {{layout.runtimes, {{"cgpu", "[ " + program + " ]"}}}};
  } else if (!entry.path.has_value() && engine == Engine::kCrio) {
    sections = {{layout.runtimes + Path{"cgpu"},
                 {{"runtime_path", program}, {"runtime_type", TomlText::Quoted("oci")}}}};
  } else if (!entry.path.has_value()) {
    sections = ContainerdSections(toml, layout, path, like);
  }
  if (set_default && !entry.is_default) {
    const Path& key = layout.default_key;
    sections.push_back({{key.begin(), key.end() - 1}, {{key.back(), TomlText::Quoted("cgpu")}}});
  }
  return sections;
}

}  // namespace

Result<Entry> FindInToml(Engine engine, const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  CGPU_ASSIGN_OR_RETURN(const auto layout, LayoutOf(engine, toml));
  return EntryOf(toml, layout);
}

Result<Edit> AddToToml(Engine engine, const std::optional<std::string>& text,
                       const std::string& path, bool set_default,
                       const std::optional<std::string>& like) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text.value_or("")));
  CGPU_ASSIGN_OR_RETURN(const auto other, TomlText::Parse(like.value_or(toml.text())));
  CGPU_ASSIGN_OR_RETURN(const auto layout, LayoutOf(engine, toml.Keys({}).empty() ? other : toml));
  const auto sections = Missing(engine, toml, layout, path, set_default, other);
  if (sections.empty()) {
    return Edit{text, {}};
  }
  CGPU_ASSIGN_OR_RETURN(auto after, toml.Add(sections, !text.has_value()));
  return Edit{std::move(after), Written(sections)};
}

Result<std::optional<std::string>> RemoveFromToml(Engine engine, const std::string& text) {
  CGPU_ASSIGN_OR_RETURN(const auto toml, TomlText::Parse(text));
  CGPU_ASSIGN_OR_RETURN(const auto layout, LayoutOf(engine, toml));
  const Path runc = layout.runtimes + Path{"runc"};
  CGPU_ASSIGN_OR_RETURN(
      auto rest,
      toml.TakeAway({layout.runtimes + Path{"cgpu"}, runc, layout.default_key, {"version"}}));
  CGPU_ASSIGN_OR_RETURN(const auto after, TomlText::Parse(rest.value_or("")));
  const Entry entry = EntryOf(after, layout);
  if (entry.path.has_value() || entry.is_default) {
    return Error{Code::kUnsupported, 0,
                 "has a runtime cgpu that is not between the marks of `cgpu install`",
                 "take it away by hand"};
  }
  // containerd does not start with a default runtime that it does not know.
  const std::string earlier = after.String(layout.default_key).value_or("runc");
  if (engine == Engine::kContainerd && earlier != "runc" && toml.Strings({"imports"}).empty() &&
      !after.Has(layout.runtimes + Path{earlier})) {
    return Error{Code::kConflict, 0,
                 "would get back its default runtime \"" + earlier + "\", which it has no more",
                 "add that runtime, or take the runtime cgpu away by hand"};
  }
  // Other runtimes need our runc by now.
  if (toml.Has(runc) && !after.Has(runc) && !after.Keys(layout.runtimes).empty()) {
    *rest += Written({{runc, {RuncType()}}});
  }
  return rest;
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
