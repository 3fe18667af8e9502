// Makes the rules that say which system calls of a container reach its shim. The container's OCI
// runtime (runc or crun, with libseccomp) makes the filter of the container's profile with them.
// They say what sandbox/filter.h says for `cgpu run`, as far as libseccomp can say it.
//
// A NOTIFY rule beside a container engine's plain "allow ioctl" has no effect whatever: libseccomp
// drops it, in either order. So the names that matter are taken out of the profile's rules and put
// back divided. Conditions on the request are masked to its low 32 bits, which is all that the
// kernel looks at; junk in the upper bits would pass a rule for all 64.
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
  std::string path;      // path of the socket that the runtime sends the listener to
  std::string metadata;  // text that goes there with it
  // Whether the runtime can have waits that fatal signals alone interrupt (`runc features`).
  bool killable = false;
};

// Returns the profile for a container with a slice. Calls that the profile denies stay denied.
// kConflict: the profile has a listener of its own; a container has room for one.
[[nodiscard]] Result<SeccompProfile> ProfileForSlice(const std::optional<SeccompProfile>& profile,
                                                     const SeccompListener& listener);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SECCOMP_RULES_H_
