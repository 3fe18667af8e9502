#include "runtime/annotations.h"

#include <algorithm>
#include <array>

namespace cgpu {
namespace {

// Beginnings of names that runtimes act on.
constexpr std::array<std::string_view, 8> kActedOn = {
    "run.oci.",               // crun, youki
    "krun.",                  // crun's handler for virtual machines
    "module.wasm.",           // crun's and youki's handlers for WebAssembly
    "org.criu.",              // crun, runc
    "org.systemd.property.",  // crun, runc: any property of the container's unit
    "bundle",                 // runc: its own label, by which hooks find the configuration
    "io.katacontainers.",     // Kata Containers
    "dev.gvisor.",            // gVisor
};

// Annotations that may stay: container engines set all except the last two themselves.
constexpr std::array<std::string_view, 9> kHarmlessAnnotations = {
    // podman --group-add keep-groups: the supplementary groups.
    "run.oci.keep_original_groups",
    // podman: which of SELinux's options mounts get their one label by.
    "run.oci.mount_context_type",
    // podman --systemd, CRI-O: how and when systemd ends the unit.
    "org.systemd.property.KillSignal",
    "org.systemd.property.TimeoutStopUSec",
    "org.systemd.property.CollectMode",
    "org.systemd.property.DefaultDependencies",
    "org.systemd.property.After",
    "org.systemd.property.TimeoutStopSec",
    // crun then refuses a filter that it would make with gaps.
    "run.oci.seccomp_fail_unknown_syscall",
};

}  // namespace

bool IsActingAnnotation(std::string_view name) {
  // runc keeps them as NAME=VALUE, so for it a name ends at the first '='.
  const bool cut = name.find('=') != std::string_view::npos;
  name = name.substr(0, name.find('='));
  const auto acted_on = [&](std::string_view beginning) {
    return beginning.ends_with('.') ? name.starts_with(beginning) : name == beginning;
  };
  return std::ranges::any_of(kActedOn, acted_on) &&
         (cut || std::ranges::find(kHarmlessAnnotations, name) == kHarmlessAnnotations.end());
}

Result<> CheckAnnotations(const std::map<std::string, std::string>& annotations) {
  for (const auto& [name, value] : annotations) {
    if (IsActingAnnotation(name)) {
      return Error{Code::kPermission, 0,
                   "OCI runtimes act on the annotation " + name +
                       ", past what cgpu writes into the container's configuration",
                   "leave it out, or run the container with a runtime that cgpu does not stand in "
                   "front of"};
    }
  }
  return {};
}

}  // namespace cgpu
