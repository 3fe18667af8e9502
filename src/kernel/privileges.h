// Giving up privileges, for a process with one thread.
#ifndef CGPU_KERNEL_PRIVILEGES_H_
#define CGPU_KERNEL_PRIVILEGES_H_

#include <linux/capability.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string_view>

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

// The capabilities with which a container can be held to a slice, as OCI configurations spell them.
// Whatever is not here gets past one, or may: what reaches other processes, mounts, raw devices and
// the kernel itself (SYS_BOOT loads one), files by handle past the mount tree, what the compute
// limits stand on, and what steers the machine rather than the command: its clock, log, accounting,
// audit and security modules. A later kernel's are not here until somebody has thought of them.
struct NamedCapability {
  int number;
  std::string_view name;
};
inline constexpr std::array kHeldCapabilities = std::to_array<NamedCapability>({
    {CAP_AUDIT_READ, "CAP_AUDIT_READ"},
    {CAP_AUDIT_WRITE, "CAP_AUDIT_WRITE"},
    {CAP_BLOCK_SUSPEND, "CAP_BLOCK_SUSPEND"},
    {CAP_CHOWN, "CAP_CHOWN"},
    {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
    {CAP_FOWNER, "CAP_FOWNER"},
    {CAP_FSETID, "CAP_FSETID"},
    {CAP_IPC_LOCK, "CAP_IPC_LOCK"},
    {CAP_IPC_OWNER, "CAP_IPC_OWNER"},
    {CAP_KILL, "CAP_KILL"},
    {CAP_LEASE, "CAP_LEASE"},
    {CAP_LINUX_IMMUTABLE, "CAP_LINUX_IMMUTABLE"},
    {CAP_MKNOD, "CAP_MKNOD"},
    {CAP_NET_ADMIN, "CAP_NET_ADMIN"},
    {CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"},
    {CAP_NET_BROADCAST, "CAP_NET_BROADCAST"},
    {CAP_NET_RAW, "CAP_NET_RAW"},
    {CAP_SETFCAP, "CAP_SETFCAP"},
    {CAP_SETGID, "CAP_SETGID"},
    {CAP_SETPCAP, "CAP_SETPCAP"},
    {CAP_SETUID, "CAP_SETUID"},
    {CAP_SYS_CHROOT, "CAP_SYS_CHROOT"},
    {CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE"},
    {CAP_SYS_TTY_CONFIG, "CAP_SYS_TTY_CONFIG"},
    {CAP_WAKE_ALARM, "CAP_WAKE_ALARM"},
});

// The same as a mask, but for CAP_MKNOD: what root's command has under `cgpu run`. Docker gives
// CAP_MKNOD to every container, and an engine's container has a device cgroup, which keeps the
// device files that it makes from being opened; `cgpu run` makes none.
[[nodiscard]] constexpr CapabilityMask CapabilitiesUnderRun() {
  CapabilityMask mask = 0;
  for (const NamedCapability& one : kHeldCapabilities) {
    mask |= CapabilityBit(one.number);
  }
  return mask & ~CapabilityBit(CAP_MKNOD);
}

// Removes `drop` from the bounding, permitted, effective, inheritable and ambient sets, for good.
// Needs CAP_SETPCAP while there is anything in the bounding set to remove.
[[nodiscard]] Result<> DropCapabilities(CapabilityMask drop);

// Becomes uid = gid = `id` (not 0) with no other groups, whose every capability set, ambient
// included, is exactly `keep` and stays so over exec; sets no_new_privs. Must be root.
[[nodiscard]] Result<> BecomeUser(uid_t id, CapabilityMask keep);

[[nodiscard]] Result<> SetNoNewPrivileges();

}  // namespace cgpu

#endif  // CGPU_KERNEL_PRIVILEGES_H_
