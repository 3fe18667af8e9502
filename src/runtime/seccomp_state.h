// What an OCI runtime (runc, crun) says when it hands over a container's seccomp listener: the
// "container process state" of opencontainers/runtime-spec config-linux.md, one JSON text per
// connection, sent in pieces; its file descriptors come beside it, in the order of `fds`.
//
// A container's `exec` sends another one, with the same container and another process.
//
// Pure. The runtime is trusted, but what the container's user chose stands in here too
// (annotations, the name), so the text is bounded in size and depth, and nothing is taken that is
// not well-formed.
#ifndef CGPU_RUNTIME_SECCOMP_STATE_H_
#define CGPU_RUNTIME_SECCOMP_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu {

// Kubernetes bounds a pod's annotations by 256 KiB; the rest is small.
inline constexpr std::size_t kMaxSeccompState = std::size_t{1} << 20;
inline constexpr std::size_t kMaxSeccompStateDepth = 32;  // of objects and arrays in each other
inline constexpr std::size_t kMaxSeccompStateFds = 16;
inline constexpr std::uint32_t kMaxPid = 1U << 22;  // the kernel's PID_MAX_LIMIT

struct SeccompState {
  std::string oci_version;
  std::size_t fds = 0;       // how many descriptors come along
  std::size_t listener = 0;  // which of them is the listener
  std::uint32_t pid = 0;     // of the process under the filter, as the runtime numbers it
  std::string metadata;      // what the container's configuration has as listenerMetadata
  // Of the container:
  std::string id;
  std::string status;      // "creating", "created", "running", "stopped" or the runtime's own
  std::string bundle;      // an absolute path
  std::uint32_t init = 0;  // its first process; 0: not said
  std::map<std::string, std::string> annotations;
};

// kInvalid, with what is wrong, for anything else. Fields that the specification does not name are
// skipped.
[[nodiscard]] Result<SeccompState> ParseSeccompState(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SECCOMP_STATE_H_
