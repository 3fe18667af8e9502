// Checks of NVIDIA's Container Toolkit and of CDI specifications. Sources: NVIDIA's security
// bulletins for the toolkit, answers 5582 (September 2024), 5616 (February 2025) and 5659 (July
// 2025) at nvidia.custhelp.com; oci-hooks(5) of podman and CRI-O; the toolkit's config.toml
// (NVIDIA/nvidia-container-toolkit internal/config/config.go). The toolkit and libnvidia-container
// have the same version numbers; the lower one of the two counts.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/driver.h"
#include "doctor/engines.h"
#include "doctor/reading.h"
#include "doctor/value.h"
#include "install/toml_text.h"
#include "runtime/cdi.h"
#include "runtime/nvidia.h"

namespace cgpu::doctor {
namespace {

struct Hole {
  std::string_view name;
  Numbers mended;  // the first version without it
};
constexpr std::array kHoles = std::to_array<Hole>({
    {"CVE-2024-0132", {1, 16, 2}},
    {"CVE-2025-23359", {1, 17, 4}},
    {"CVE-2025-23266", {1, 17, 8}},
    {"CVE-2025-23267", {1, 17, 8}},
});

constexpr std::array kCdiFolders = {"/etc/cdi", "/var/run/cdi"};

// Returns paths and texts of the specifications that can be read.
std::vector<std::pair<std::string, std::string>> CdiTexts(const Facts& facts) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const std::string folder : kCdiFolders) {
    for (const std::string& name : NamesIn(facts, folder)) {
      const std::string path = In(folder, name);
      const auto text = name.ends_with(".json") || name.ends_with(".yaml")
                            ? facts.Read(path)
                            : Result<std::string>(Error{Code::kNotFound, 0, path, {}});
      if (text.ok()) {
        texts.emplace_back(path, *text);
      }
    }
  }
  return texts;
}

// Returns whether a hook file puts GPUs into containers.
bool PutsGpus(const std::string& text) {
  const Value hook = Value::Parse(text)["hook"];
  std::vector<std::string> words;
  for (const Value& word : hook["args"].Items()) {
    words.push_back(word.Text());
  }
  return NvidiaHookOf(hook["path"].Text(), words) == NvidiaHook::kGpus;
}

std::string AboutOthers(const std::string& path, const std::vector<std::string>& versions,
                        const std::string& loaded) {
  return path + " is about driver " + Joined(versions) + ", and " + loaded + " is loaded";
}

}  // namespace

Finding ToolkitVersion(const Facts& facts) {
  std::optional<Numbers> version;
  for (const char* const program : {"nvidia-ctk", "nvidia-container-cli"}) {
    const auto found = FirstVersion(OutputOrNothing(facts, {program, "--version"}));
    version = found && version ? std::min(*found, *version) : (found ? found : version);
  }
  if (!version) {
    return Skipped("NVIDIA's Container Toolkit is not installed");
  }
  std::vector<std::string> holes;
  for (const Hole& hole : kHoles) {
    if (*version < hole.mended) {
      holes.emplace_back(hole.name);
    }
  }
  const std::string text = "NVIDIA's Container Toolkit is " + Written(*version);
  return holes.empty() ? Right(text) : Wrong(text + ", which has " + Joined(holes));
}

Finding ToolkitHooks(const Facts& facts) {
  std::vector<std::string> found;
  for (const std::string folder :
       {"/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"}) {
    for (const std::string& name : NamesIn(facts, folder)) {
      if (name.ends_with(".json") && PutsGpus(TextOf(facts, In(folder, name)))) {
        found.push_back(In(folder, name));
      }
    }
  }
  return found.empty() ? Right("no hook file puts whole GPUs into containers")
                       : Wrong("hooks put whole GPUs into containers: " + Joined(found));
}

Finding ToolkitMode(const Facts& facts) {
  const std::string path = "/etc/nvidia-container-runtime/config.toml";
  const auto text = facts.Read(path);
  const auto toml =
      text.ok() ? install::TomlText::Parse(*text) : Result<install::TomlText>(text.error());
  if (!toml.ok()) {
    return Skipped("there is no " + path + " that can be read");
  }
  const std::string section = "nvidia-container-runtime";
  const auto runtimes = toml->Strings({section, "runtimes"});
  const bool calls = std::ranges::any_of(runtimes, [](const std::string& runtime) {
    return runtime.substr(runtime.rfind('/') + 1) == "cgpu-runtime";
  });
  const std::string mode = toml->String({section, "mode"}).value_or("auto");
  return calls && mode != "cdi"
             ? Wrong("nvidia-container-runtime calls cgpu-runtime, in the mode \"" + mode + "\"")
             : Right("nvidia-container-runtime does not stand in cgpu's way");
}

Finding ToolkitDefault(const Facts& facts) {
  std::vector<std::string> defaults;
  const std::string docker(install::FactsOf(install::Engine::kDocker).file);
  if (Value::Parse(TextOf(facts, docker))["default-runtime"].Text() == "nvidia") {
    defaults.push_back(docker);
  }
  const std::string containerd(install::FactsOf(install::Engine::kContainerd).file);
  const std::string text = TextOf(facts, containerd);
  if (std::ranges::any_of(LinesOf(text), [](const std::string& line) {
        return Trimmed(line).starts_with("default_runtime_name") &&
               line.find_first_of("\"'") + 1 == line.find("nvidia");
      })) {
    defaults.push_back(containerd);
  }
  return defaults.empty() ? Right("nvidia is no container engine's default runtime")
                          : Wrong("nvidia is the default runtime in " + Joined(defaults));
}

Finding CdiRead(const Facts& facts) {
  for (const auto& [path, text] : CdiTexts(facts)) {
    if (const auto files = ParseCdi(text); !files.ok()) {
      return Wrong(path + ": " + files.error().what);
    }
  }
  return Right("cgpu understands the CDI specifications");
}

Finding CdiThere(const Facts& facts) {
  if (!LoadedDriver(facts)) {
    return Skipped("no NVIDIA driver is loaded");
  }
  for (const auto& [path, text] : CdiTexts(facts)) {
    if (const auto files = ParseCdi(text); files.ok() && !files->mounts.empty()) {
      return Right(path + " has the driver's libraries");
    }
  }
  return Wrong("no specification in /etc/cdi or /var/run/cdi has the driver's libraries");
}

Finding CdiVersion(const Facts& facts) {
  const std::string loaded = LoadedDriver(facts).value_or("");
  if (loaded.empty()) {
    return Skipped("no NVIDIA driver is loaded");
  }
  for (const auto& [path, text] : CdiTexts(facts)) {
    const auto versions = LibraryVersions(text);
    if (!versions.empty() && std::ranges::find(versions, loaded) == versions.end()) {
      return Wrong(AboutOthers(path, versions, loaded));
    }
  }
  return Right("the CDI specifications name no other driver than " + loaded);
}

}  // namespace cgpu::doctor
