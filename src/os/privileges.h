// Gives up privileges, for a process with one thread.
#ifndef CGPU_OS_PRIVILEGES_H_
#define CGPU_OS_PRIVILEGES_H_

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

// The capabilities of a shim that root started, in every set. CAP_SYS_PTRACE opens tenants'
// descriptors and memory. CAP_DAC_OVERRIDE is needed because /proc/PID/mem and /proc/PID/fd of
// another uid are files of mode 0600, and the kernel checks file permission before it checks
// tracing. It adds nothing for an attacker who controls a shim: CAP_SYS_PTRACE reaches every
// process of the host, root's included. CAP_KILL adds nothing either; with it, the shim itself ends
// a container that got more than it may, even while every other part of cgpu is away.
inline constexpr CapabilityMask kShimCapabilities =
    CapabilityBit(CAP_SYS_PTRACE) | CapabilityBit(CAP_DAC_OVERRIDE) | CapabilityBit(CAP_KILL);

// The capabilities, in every set, of the helper that sets interleave levels for a shim
// (shim/interleave.h).
inline constexpr CapabilityMask kInterleaverCapabilities = CapabilityBit(CAP_SYS_NICE);

// The capabilities with which a container can be held to a slice, as OCI configurations spell them.
// A capability that is not listed gets past a slice, or may. It reaches other processes, mounts,
// raw devices and the kernel itself (SYS_BOOT loads one), opens files by handle past the mount
// tree, changes what the compute limits depend on, or controls the machine rather than the command:
// its clock, log, accounting, audit and security modules. Capabilities of later kernels are not
// listed until somebody has examined them.
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

// Returns the same set as a mask, without CAP_MKNOD: the capabilities of root's command under `cgpu
// run`. Docker gives CAP_MKNOD to every container. A container engine gives it a device cgroup
// too, so it cannot open the device files that it makes. `cgpu run` makes no device cgroup.
[[nodiscard]] constexpr CapabilityMask CapabilitiesUnderRun() {
  CapabilityMask mask = 0;
  for (const NamedCapability& one : kHeldCapabilities) {
    mask |= CapabilityBit(one.number);
  }
  return mask & ~CapabilityBit(CAP_MKNOD);
}

// Removes `drop` from the bounding, permitted, effective, inheritable and ambient sets,
// permanently. Needs CAP_SETPCAP while the bounding set holds anything to remove.
[[nodiscard]] Result<> DropCapabilities(CapabilityMask drop);

// Becomes uid = gid = `id` (not 0) with no other groups. Every capability set, ambient included, is
// then exactly `keep`, also after exec. Sets no_new_privs. The caller must be root.
[[nodiscard]] Result<> BecomeUser(uid_t id, CapabilityMask keep);

[[nodiscard]] Result<> SetNoNewPrivileges();

}  // namespace cgpu

#endif  // CGPU_OS_PRIVILEGES_H_
