// Giving up privileges, for a process with one thread.
#ifndef CGPU_KERNEL_PRIVILEGES_H_
#define CGPU_KERNEL_PRIVILEGES_H_

#include <linux/capability.h>
#include <sys/types.h>

#include <cstdint>

#include "base/result.h"

namespace cgpu {

// A set of capabilities: bit n is capability n of <linux/capability.h>.
using CapabilityMask = std::uint64_t;

[[nodiscard]] constexpr CapabilityMask CapabilityBit(int capability) {
  return CapabilityMask{1} << capability;
}
inline constexpr CapabilityMask kAllCapabilities = ~CapabilityMask{0};

// What a shim that root started holds, in every set. CAP_SYS_PTRACE: tenants' descriptors and
// memory. CAP_DAC_OVERRIDE: /proc/PID/mem and /proc/PID/fd of another uid are files of mode 0600,
// and the kernel asks for file permission before it asks about tracing. It adds nothing for whoever
// takes a shim over: CAP_SYS_PTRACE reaches every process of the host, root's included. Nor does
// CAP_KILL: a container that got more than it may is ended by its shim, whoever else is away.
inline constexpr CapabilityMask kShimCapabilities =
    CapabilityBit(CAP_SYS_PTRACE) | CapabilityBit(CAP_DAC_OVERRIDE) | CapabilityBit(CAP_KILL);

// What the helper holds that sets interleave levels for a shim (shim/interleave.h), in every set.
inline constexpr CapabilityMask kInterleaverCapabilities = CapabilityBit(CAP_SYS_NICE);

// Removes `drop` from the bounding, permitted, effective, inheritable and ambient sets, for good.
// Needs CAP_SETPCAP while there is anything in the bounding set to remove.
[[nodiscard]] Result<> DropCapabilities(CapabilityMask drop);

// Becomes uid = gid = `id` (not 0) with no other groups, whose every capability set, ambient
// included, is exactly `keep` and stays so over exec; sets no_new_privs. Must be root.
[[nodiscard]] Result<> BecomeUser(uid_t id, CapabilityMask keep);

[[nodiscard]] Result<> SetNoNewPrivileges();

}  // namespace cgpu

#endif  // CGPU_KERNEL_PRIVILEGES_H_
