// The shim's own confinement. What it holds makes whoever takes a shim over root of the host,
// so the shim checks at its start that it has no more than that, and gives up every system call it
// does not need.
#ifndef CGPU_SHIM_CONFINE_H_
#define CGPU_SHIM_CONFINE_H_

#include <set>

#include "base/result.h"
#include "kernel/privileges.h"

namespace cgpu::shim {

// Not dumpable, no new privileges; and when not started by an ordinary user (`user` 0): a uid other
// than 0, and `capabilities`, no more and no less, in every capability set. kPermission says what
// is wrong.
[[nodiscard]] Result<> CheckPrivileges(unsigned user,
                                       CapabilityMask capabilities = kShimCapabilities);

// The system calls that a shim of this version needs from its first instruction on: what it makes,
// and what the C library makes to start it.
[[nodiscard]] const std::set<int>& NeededSystemCalls();

// Installs that allow-list on all threads. Call before tenants are served. What a process may make
// can never grow again, whatever it executes: `allowed` is what a predecessor has left it, and
// what it is from then on; nothing is installed where that is no more than is needed.
[[nodiscard]] Result<> ConfineSystemCalls(std::set<int>& allowed);

// The same for the helper (interleave.h), for good: messages, and RM_CONTROL as its only ioctl.
[[nodiscard]] Result<> ConfineInterleaver();

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_CONFINE_H_
