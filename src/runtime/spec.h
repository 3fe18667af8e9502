// A container's OCI configuration, config.json of its bundle (opencontainers/runtime-spec
// config.md): what of it matters to a slice, and the changes that a slice needs.
//
// Pure. Whatever is not changed stays as it was, fields that nobody here knows among them. The
// engine wrote the text, but much of it is the container's user's: it is bounded in size and depth,
// and what is read must be well-formed.
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

// Kubernetes lets environment and annotations together have more than 1 MiB.
inline constexpr std::size_t kMaxSpec = std::size_t{8} << 20;

struct SpecMount {
  std::string source;       // a file or folder of the node; absolute
  std::string destination;  // absolute, in the container
  bool read_only = true;
  bool executable = false;  // programs and libraries
};

// A program of the node that the runtime runs at some point of the container's life.
struct SpecHook {
  std::string path;
  std::vector<std::string> arguments;  // from argv[0] on
};

struct ContainerSpec {
  std::vector<std::string> environment;            // NAME=VALUE
  std::map<std::string, std::string> annotations;  // pod and container names among them
  std::set<std::string> capabilities;              // in any of the five sets: CAP_SYS_ADMIN, ...
  bool user_namespace = false;  // one of its own: capabilities are worth nothing outside
  bool pid_namespace = false;
  std::vector<std::string> gpu_files;  // that somebody has put in already, by path
  std::vector<SpecHook> hooks;         // of all stages
  // Of the node's files, but for those that ChangeSpec() takes out; a source may be relative to the
  // bundle.
  std::vector<SpecMount> binds;
  std::optional<SeccompProfile> seccomp;
};

[[nodiscard]] Result<ContainerSpec> ParseSpec(std::string_view text);

// A capability with which a container cannot be held, or nothing: any that is not spelt as in
// kHeldCapabilities (kernel/privileges.h), as crun takes cap_sys_admin and numbers, too. One in a
// user namespace of the container's own is harmless.
[[nodiscard]] std::optional<std::string> CapabilityPastSlices(const ContainerSpec& spec);

struct SpecDevice {
  std::string path;  // in the container
  unsigned major = 0;
  unsigned minor = 0;
};

struct SpecChanges {
  SeccompProfile seccomp;
  std::set<unsigned> gpu_majors;    // of the node's device files, wherever they are put
  std::vector<SpecDevice> devices;  // readable and writable by all
  std::vector<SpecMount> mounts;    // after those that are there
  // To be run in the container's mount namespace before the container's root becomes its root
  // (createContainer), after those that are there.
  std::vector<SpecHook> hooks;
  // To be run in the container, under its filter, right before its first process is its own
  // program (startContainer), before those that are there.
  std::vector<SpecHook> start_hooks;
  // Put in place of what the variable says, or added.
  std::vector<std::pair<std::string, std::string>> environment;
};

// The configuration with `changes`, and without any file of a GPU or socket of a GPU's daemon that
// is not among them, so that programs find no card that is not theirs. (That they could not use it
// is the shim's doing.) NVIDIA's hooks about such files go too. Errors as ParseSpec().
[[nodiscard]] Result<std::string> ChangeSpec(std::string_view text, const SpecChanges& changes);

// The configuration with another seccomp profile and nothing else changed.
[[nodiscard]] Result<std::string> ChangeSeccomp(std::string_view text,
                                                const SeccompProfile& profile);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SPEC_H_
