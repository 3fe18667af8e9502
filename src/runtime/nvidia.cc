#include "runtime/nvidia.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <system_error>

namespace cgpu {
namespace {

// NVIDIA/nvidia-container-toolkit pkg/nvcdi/common-nvml.go, internal/discover/graphics.go, ipc.go.
constexpr std::array<std::string_view, 2> kFiles = {"/dev/nvidia", "/dev/dri"};
constexpr std::array<std::string_view, 6> kSockets = {
    "/run/nvidia-persistenced",     "/run/nvidia-fabricmanager",     "/run/nvidia-imex",
    "/var/run/nvidia-persistenced", "/var/run/nvidia-fabricmanager", "/tmp/nvidia-mps"};

// Programs that have hooks as subcommands, and those subcommands.
constexpr std::array<std::string_view, 2> kHookPrograms = {"nvidia-cdi-hook", "nvidia-ctk"};
constexpr std::array<std::string_view, 5> kLibraryHooks = {
    "create-symlinks", "create-soname-symlinks", "enable-cuda-compat", "update-application-profile",
    "update-ldcache"};
constexpr std::array<std::string_view, 3> kNeedlessHooks = {
    "chmod", "disable-device-node-modification", "update-nvidia-params"};
// Programs that put GPUs in, each under the names it has had.
constexpr std::array<std::string_view, 3> kGpuPrograms = {
    "nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-cli"};

template <std::size_t kCount>
bool BeginsWithOneOf(std::string_view text, const std::array<std::string_view, kCount>& list) {
  return std::ranges::any_of(list, [&](std::string_view one) { return text.starts_with(one); });
}

template <std::size_t kCount>
bool Contains(const std::array<std::string_view, kCount>& list, std::string_view text) {
  return std::ranges::find(list, text) != list.end();
}

// Returns the path without "//", "/./" and "/../".
std::string Plain(std::string_view path) {
  return std::filesystem::path(path).lexically_normal();
}

// Returns the program's name, also for a real program beside which a wrapper of its name was put:
// ".real".
std::string_view ProgramOf(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view kReal = ".real";
  return name.ends_with(kReal) ? name.substr(0, name.size() - kReal.size()) : name;
}

// Returns the subcommand: the first word that is neither an option nor "hook".
std::string_view SubcommandOf(const std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-') && arguments[i] != "hook") {
      return arguments[i];
    }
  }
  return {};
}

}  // namespace

bool IsGpuFile(std::string_view path) {
  return BeginsWithOneOf(Plain(path), kFiles);
}

bool IsGpuSocket(std::string_view path) {
  return BeginsWithOneOf(Plain(path), kSockets);
}

std::optional<unsigned> GpuMinor(std::string_view path) {
  const std::string plain = Plain(path);
  const std::string_view digits = std::string_view(plain).substr(
      plain.starts_with(kFiles[0]) ? kFiles[0].size() : plain.size());
  unsigned minor = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), minor);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole ? std::optional(minor) : std::nullopt;
}

NvidiaHook NvidiaHookOf(std::string_view path, const std::vector<std::string>& arguments) {
  const std::string_view program = ProgramOf(path);
  // containerd's hook is containerd itself, with the program among its arguments.
  const bool gpus = Contains(kGpuPrograms, program) ||
                    std::ranges::any_of(arguments, [](const std::string& word) {
                      return Contains(kGpuPrograms, ProgramOf(word));
                    });
  if (gpus) {
    return NvidiaHook::kGpus;
  }
  if (!Contains(kHookPrograms, program)) {
    return program.starts_with("nvidia-") ? NvidiaHook::kUnknown : NvidiaHook::kNone;
  }
  const std::string_view subcommand = SubcommandOf(arguments);
  if (Contains(kLibraryHooks, subcommand)) {
    return NvidiaHook::kLibraries;
  }
  return Contains(kNeedlessHooks, subcommand) ? NvidiaHook::kNeedless : NvidiaHook::kUnknown;
}

bool NamesGpus(std::string_view visible_devices) {
  return !visible_devices.empty() && visible_devices != "void" && visible_devices != "none";
}

}  // namespace cgpu
