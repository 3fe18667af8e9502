// Which system calls of a container reach its shim: rules for the filter that the container's OCI
// runtime (runc or crun, with libseccomp) makes of the container's profile. They say what
// kernel/filter.h says for `cgpu run`, as far as libseccomp can say it.
//
// A NOTIFY rule beside an engine's plain "allow ioctl" has no effect whatever: libseccomp drops it,
// in either order. So the names that matter are taken out of the profile's rules and put back
// divided. Conditions on the request are masked to its low 32 bits, which is all that the kernel
// looks at; a rule for the 64 bits would be walked past with junk in the upper ones.
//
// Pure.
#ifndef CGPU_RUNTIME_SECCOMP_RULES_H_
#define CGPU_RUNTIME_SECCOMP_RULES_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/seccomp_profile.h"

namespace cgpu {

struct SeccompListener {
  std::string path;      // of the socket that the runtime sends the listener to
  std::string metadata;  // goes there with it
  // The runtime can have waits interrupted by fatal signals alone (`runc features`).
  bool killable = false;
};

// For a container with a slice. What the profile denies stays denied. kConflict: the profile has a
// listener of its own; a container has room for one.
[[nodiscard]] Result<SeccompProfile> ProfileForSlice(const std::optional<SeccompProfile>& profile,
                                                     const SeccompListener& listener);

// For a container without one, on a node that shares its cards: whatever files of a card are passed
// to it, nothing can be made with them. ENODEV for the calls that make objects and for
// nvidia-uvm's; nothing is trapped.
[[nodiscard]] SeccompProfile ProfileForOthers(const std::optional<SeccompProfile>& profile);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SECCOMP_RULES_H_
