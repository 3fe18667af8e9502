#include "runtime/cdi.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "runtime/nvidia.h"

namespace cgpu {
namespace {

constexpr std::string_view kKind = "nvidia.com/gpu";

Error WrongCdi(std::string what) {
  return Error{Code::kInvalid, 0, "a CDI specification " + std::move(what),
               "make it anew: nvidia-ctk cdi generate"};
}

bool IsAbsolute(const std::string& path) {
  return path.starts_with('/');
}

// These functions throw what yaml-cpp throws where a node is of another kind.

std::vector<std::string> Texts(const YAML::Node& list) {
  return list ? list.as<std::vector<std::string>>() : std::vector<std::string>();
}

Result<> AddMounts(const YAML::Node& list, DriverFiles& files) {
  for (const YAML::Node& one : list) {
    SpecMount mount{one["hostPath"].as<std::string>(), one["containerPath"].as<std::string>()};
    if (!IsAbsolute(mount.source) || !IsAbsolute(mount.destination)) {
      return WrongCdi("has a mount without absolute paths");
    }
    const auto of_gpus = [](const std::string& path) {
      return IsGpuFile(path) || IsGpuSocket(path);
    };
    mount.executable = true;
    if (!of_gpus(mount.source) && !of_gpus(mount.destination)) {
      files.mounts.push_back(std::move(mount));
    }
  }
  return {};
}

void AddVariables(const YAML::Node& list, DriverFiles& files) {
  for (const std::string& variable : Texts(list)) {
    const std::size_t at = variable.find('=');
    if (at != std::string::npos && !variable.starts_with("NVIDIA_VISIBLE_DEVICES=")) {
      files.environment.emplace_back(variable.substr(0, at), variable.substr(at + 1));
    }
  }
}

void AddHooks(const YAML::Node& list, DriverFiles& files) {
  for (const YAML::Node& one : list) {
    SpecHook hook{one["path"].as<std::string>(), Texts(one["args"])};
    const NvidiaHook kind = NvidiaHookOf(hook.path, hook.arguments);
    if (kind == NvidiaHook::kLibraries && one["hookName"].as<std::string>() == "createContainer") {
      files.hooks.push_back(std::move(hook));
    } else if (kind != NvidiaHook::kNeedless) {
      std::string call = hook.path;
      for (std::size_t i = 1; i < hook.arguments.size(); ++i) {
        call += " " + hook.arguments[i];
      }
      files.left_out.push_back(std::move(call));
    }
  }
}

// Reads a specification. Returns nothing where it is of another kind.
Result<std::optional<DriverFiles>> ReadSpecification(std::string_view text) {
  const YAML::Node root = YAML::Load(std::string(text));
  if (!root.IsMap() || !root["cdiVersion"] || !root["kind"]) {
    return WrongCdi("has no cdiVersion or no kind");
  }
  if (root["kind"].as<std::string>() != kKind) {
    return std::optional<DriverFiles>();
  }
  DriverFiles files;
  if (const YAML::Node edits = root["containerEdits"]) {
    CGPU_TRY(AddMounts(edits["mounts"], files));
    AddVariables(edits["env"], files);
    AddHooks(edits["hooks"], files);
  }
  return std::optional(std::move(files));
}

Result<std::optional<DriverFiles>> ParseSpecification(std::string_view text) {
  try {
    return ReadSpecification(text);
  } catch (
      const YAML::Exception& exception) {  // caught here alone: the library reports by exceptions
    return WrongCdi(std::string("is not understood: ") + exception.what());
  }
}

template <class List>
void Append(List& list, const List& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// Returns the specifications of a folder in the order of their names.
Result<std::vector<std::string>> FilesIn(const std::string& folder) {
  const auto names = NamesIn(folder);
  if (!names.ok() && names.error().sys_errno != ENOENT) {
    return names.error();
  }
  std::vector<std::string> files;
  for (const std::string& name : names.value_or({})) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (path.extension() == ".json" || path.extension() == ".yaml") {
      files.push_back(path);
    }
  }
  return files;
}

}  // namespace

Result<DriverFiles> ParseCdi(std::string_view text) {
  CGPU_ASSIGN_OR_RETURN(auto files, ParseSpecification(text));
  return files.value_or(DriverFiles());
}

Result<DriverFiles> ReadCdi(const std::vector<std::string>& folders) {
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    CGPU_ASSIGN_OR_RETURN(const auto paths, FilesIn(*folder));
    DriverFiles all;
    bool any = false;
    for (const std::string& path : paths) {
      CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
      const auto files = ParseSpecification(text);
      if (!files.ok() && text.find(kKind) != std::string::npos) {
        Error error = files.error();
        error.what = path + ": " + error.what;
        return error;
      }
      if (files.ok() && files->has_value()) {
        any = true;
        Append(all.mounts, (*files)->mounts);
        Append(all.environment, (*files)->environment);
        Append(all.hooks, (*files)->hooks);
        Append(all.left_out, (*files)->left_out);
      }
    }
    if (any) {
      return all;
    }
  }
  return DriverFiles();
}

}  // namespace cgpu
