// A container's OCI configuration, config.json of its bundle (opencontainers/runtime-spec
// config.md): what matters to a slice, and the changes that a slice needs.
//
// Pure. Everything that is not changed stays as it was, also fields that cgpu does not know. The
// container engine wrote the text, but much of it is from the container's user. So it is bounded in
// size and depth, and what is read must be well-formed.
#ifndef CGPU_RUNTIME_SPEC_H_
#define CGPU_RUNTIME_SPEC_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/seccomp_profile.h"

namespace cgpu {

// Longest configuration, in bytes. Kubernetes lets environment and annotations together have more
// than 1 MiB.
inline constexpr std::size_t kMaxSpec = std::size_t{8} << 20;

struct SpecMount {
  std::string source;       // file or folder of the host; absolute
  std::string destination;  // absolute, in the container
  bool read_only = true;
  bool executable = false;  // programs and libraries
};

// A program of the host that the runtime runs at some point of the container's life.
struct SpecHook {
  std::string path;
  std::vector<std::string> arguments;  // from argv[0] on
};

struct ContainerSpec {
  std::string root;                                // folder of the container's files
  std::vector<std::string> environment;            // NAME=VALUE
  std::map<std::string, std::string> annotations;  // pod and container names among them
  std::set<std::string> capabilities;              // in any of the five sets: CAP_SYS_ADMIN, ...
  bool user_namespace = false;  // one of its own: capabilities are worth nothing outside
  bool pid_namespace = false;
  std::vector<std::string> gpu_files;  // GPU files that are already there, by path
  std::vector<SpecHook> hooks;         // hooks of all stages
  // Mounts of the host's files, without those that ChangeSpec() takes out; a source may be relative
  // to the bundle.
  std::vector<SpecMount> binds;
  std::optional<SeccompProfile> seccomp;
};

[[nodiscard]] Result<ContainerSpec> ParseSpec(std::string_view text);

// Returns the file in which Docker or podman keeps the name of the container with this id; "":
// neither made it. Docker mounts <folder>/<id>/hostname and keeps config.v2.json beside it;
// podman's storage has the container's files in <folder>/<driver>/ and names in
// <folder>/<driver>-containers/ (host/engine_names.h). The file may not be there.
[[nodiscard]] std::string NamesFile(std::string_view id, const ContainerSpec& spec);

// Returns a capability that lets a container escape its slice, or nothing. That is also any that is
// not spelt as in kHeldCapabilities (os/privileges.h), because crun takes cap_sys_admin and
// numbers, too. A capability in a user namespace of the container's own is harmless.
[[nodiscard]] std::optional<std::string> CapabilityPastSlices(const ContainerSpec& spec);

struct SpecDevice {
  std::string path;  // in the container
  unsigned major = 0;
  unsigned minor = 0;
};

struct SpecChanges {
  SeccompProfile seccomp;
  std::set<unsigned> gpu_majors;  // major numbers of the host's device files, wherever they are put
  std::vector<SpecDevice> devices;  // readable and writable by all
  std::vector<SpecMount> mounts;    // added after those that are there
  // Hooks to run in the container's mount namespace before the container's root becomes its root
  // (createContainer), after those that are there.
  std::vector<SpecHook> hooks;
  // Hooks to run in the container, under its filter, right before its first process becomes its own
  // program (startContainer), before those that are there.
  std::vector<SpecHook> start_hooks;
  // Variables to set: in place of the old value, or added.
  std::vector<std::pair<std::string, std::string>> environment;
};

// Returns the configuration with `changes`, and without any GPU file or socket of a GPU's daemon
// that is not among them, so that programs find no GPU that is not theirs. (The shim keeps them
// from using it.) NVIDIA's hooks about such files go too. Errors as ParseSpec().
[[nodiscard]] Result<std::string> ChangeSpec(std::string_view text, const SpecChanges& changes);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SPEC_H_
