#include "doctor/engines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/installation.h"
#include "doctor/reading.h"
#include "doctor/value.h"
#include "runtime/features.h"

namespace cgpu::doctor {
namespace {

using install::Engine;

struct EngineProgramName {
  Engine engine;
  const char* program;
  Numbers tried;  // the oldest version that was tried (docs/howto/container-engines.md); 0: none
};
constexpr std::array kPrograms = std::to_array<EngineProgramName>({
    {Engine::kDocker, "dockerd", {20, 10, 0}},
    {Engine::kContainerd, "containerd", {1, 6, 0}},
    {Engine::kCrio, "crio", {0, 0, 0}},
    {Engine::kPodman, "podman", {4, 3, 0}},
});

std::string NameOf(Engine engine) {
  return std::string(install::FactsOf(engine).name);
}

bool IsInstalled(const Facts& facts, Engine engine) {
  return FindProgram(facts, kPrograms[static_cast<std::size_t>(engine)].program).has_value();
}

// A configuration as far as it can be judged.
struct Configured {
  std::string file;
  std::optional<Error> wrong;
  std::string unreadable;  // why it cannot be judged
  install::Entry entry;
};

// Returns the files that may have the runtime: the engine's own, and for containerd those that
// `cgpu install` makes in folders that it imports.
std::vector<std::string> FilesOf(const Facts& facts, Engine engine) {
  std::vector<std::string> files{std::string(install::FactsOf(engine).file)};
  const auto text = facts.Read(files[0]);
  const auto imports =
      engine == Engine::kContainerd && text.ok() ? install::ImportsOf(*text) : install::Imports{};
  for (const std::string& pattern : imports.ok() ? imports->patterns : std::vector<std::string>()) {
    if (pattern.ends_with("/*.toml") && pattern.starts_with('/')) {
      files.push_back(pattern.substr(0, pattern.rfind('/')) + "/cgpu.toml");
    }
  }
  return files;
}

Configured ConfigurationOf(const Facts& facts, Engine engine) {
  Configured found;
  for (const std::string& file : FilesOf(facts, engine)) {
    const auto text = facts.Read(file);
    if (!text.ok() && text.error().code == Code::kNotFound) {
      continue;
    }
    found.file = file;
    if (!text.ok()) {
      found.unreadable = text.error().what;
      return found;
    }
    const auto entry = install::FindEntry(engine, *text);
    if (!entry.ok()) {
      found.wrong = entry.error();
      return found;
    }
    found.entry = *entry;
    if (entry->path.has_value()) {
      return found;
    }
  }
  return found;
}

// The engines that are installed and whose configuration has the runtime.
std::vector<std::pair<Engine, Configured>> Knowing(const Facts& facts) {
  std::vector<std::pair<Engine, Configured>> knowing;
  for (const install::EngineFacts& engine : install::Engines()) {
    Configured found = ConfigurationOf(facts, engine.engine);
    if (IsInstalled(facts, engine.engine) && found.entry.path.has_value()) {
      knowing.emplace_back(engine.engine, std::move(found));
    }
  }
  return knowing;
}

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Finding EngineConfig(const Facts& facts, Engine engine) {
  if (!IsInstalled(facts, engine)) {
    return Skipped(NameOf(engine) + " is not installed");
  }
  const Configured found = ConfigurationOf(facts, engine);
  if (!found.unreadable.empty()) {
    return Skipped(found.unreadable);
  }
  if (found.wrong) {
    return Wrong(found.file + " " + found.wrong->what);
  }
  return Right(found.file.empty() ? NameOf(engine) + " has no configuration"
                                  : found.file + " is understood");
}

// Looks also where the engine is not found: its configuration can be there without it.
Finding EngineProgram(const Facts& facts, Engine engine) {
  const Configured found = ConfigurationOf(facts, engine);
  if (!found.unreadable.empty()) {
    return Skipped(found.unreadable);
  }
  if (!found.entry.path.has_value()) {
    return found.entry.is_default
               ? Wrong(found.file + " makes cgpu the default runtime and names no such runtime")
               : Skipped("the configuration of " + NameOf(engine) + " has no runtime cgpu");
  }
  if (FindProgram(facts, *found.entry.path)) {
    return Right(found.file + " names " + *found.entry.path);
  }
  return Wrong(found.file + " names the runtime " + *found.entry.path +
               ", and there is no such program" +
               (found.entry.is_default ? ". It is the default: no container starts" : ""));
}

Finding EngineInstalled(const Facts& facts) {
  std::vector<std::string> installed;
  for (const install::EngineFacts& engine : install::Engines()) {
    if (IsInstalled(facts, engine.engine)) {
      installed.push_back(std::string(engine.name));
    }
  }
  return installed.empty() ? Wrong("none of docker, containerd, CRI-O and podman is installed")
                           : Right("installed: " + Joined(installed));
}

Finding EngineVersions(const Facts& facts) {
  std::vector<std::string> old;
  for (const EngineProgramName& one : kPrograms) {
    const auto version = IsInstalled(facts, one.engine)
                             ? FirstVersion(OutputOrNothing(facts, {one.program, "--version"}))
                             : std::nullopt;
    if (version && *version < one.tried) {
      old.push_back(NameOf(one.engine) + " " + Written(*version));
    }
  }
  return old.empty() ? Right("the container engines are no older than those that were tried")
                     : Wrong("older than any that was tried: " + Joined(old));
}

Finding EngineKnows(const Facts& facts) {
  if (EngineInstalled(facts).kind == Finding::Kind::kWrong) {
    return Skipped("no container engine is installed");
  }
  std::vector<std::string> names;
  for (const auto& [engine, found] : Knowing(facts)) {
    names.push_back(NameOf(engine));
  }
  return names.empty() ? Wrong("no container engine knows the runtime cgpu")
                       : Right("these know the runtime cgpu: " + Joined(names));
}

Finding EngineSameProgram(const Facts& facts) {
  std::vector<std::string> others;
  for (const auto& [engine, found] : Knowing(facts)) {
    if (*found.entry.path != Beside(facts, "cgpu-runtime")) {
      others.push_back(found.file + " names " + *found.entry.path);
    }
  }
  return others.empty() ? Right("container engines call the cgpu-runtime beside this cgpu")
                        : Wrong("not the cgpu-runtime beside this cgpu: " + Joined(others));
}

Finding DockerLoaded(const Facts& facts) {
  const Configured found = ConfigurationOf(facts, Engine::kDocker);
  if (!found.entry.path.has_value()) {
    return Skipped("the configuration of docker has no runtime cgpu");
  }
  const auto output = facts.Run({"docker", "info", "--format", "{{json .Runtimes}}"});
  const Value runtimes =
      Value::Parse(JsonPart(output.ok() && output->status == 0 ? output->text : std::string()));
  if (!runtimes.IsObject()) {
    return Skipped("`docker info` does not tell: dockerd does not run, or not for this user");
  }
  return runtimes["cgpu"].IsObject() ? Right("dockerd knows the runtime cgpu")
                                     : Wrong(found.file +
                                             " has the runtime cgpu, and the dockerd "
                                             "that runs does not know it");
}

Finding ContainerdCri(const Facts& facts) {
  const auto text = facts.Read(std::string(install::FactsOf(Engine::kContainerd).file));
  if (!text.ok() || !FindProgram(facts, "kubelet")) {
    return Skipped("this is no Kubernetes node with containerd");
  }
  return install::DisablesCri(*text) ? Wrong("containerd's configuration disables its CRI plugin")
                                     : Right("containerd's CRI plugin is enabled");
}

Finding OciRuntime(const Facts& facts) {
  const std::string runtime = SettingsOrDefaults(facts).runtime;
  const auto path = FindProgram(facts, runtime);
  return path ? Right("the OCI runtime is " + *path)
              : Wrong("the OCI runtime \"" + runtime + "\" is not installed");
}

Finding OciRuntimeKind(const Facts& facts) {
  const std::string runtime = SettingsOrDefaults(facts).runtime;
  const std::string name = BaseName(runtime);
  return name == "runc" || name == "crun" ? Right("the OCI runtime is " + name)
                                          : Wrong("the OCI runtime is \"" + runtime + "\"");
}

Finding OciRuntimeKillable(const Facts& facts) {
  const std::string runtime = SettingsOrDefaults(facts).runtime;
  if (!FindProgram(facts, runtime)) {
    return Skipped("see oci-runtime");
  }
  const std::string version = OutputOrNothing(facts, {runtime, "--version"});
  return WaitsKillably(OutputOrNothing(facts, {runtime, "features"}), version)
             ? Right("the OCI runtime can make waits that only fatal signals end")
             : Wrong("this OCI runtime cannot make waits that only fatal signals end: " +
                     version.substr(0, version.find('\n')));
}

}  // namespace cgpu::doctor
