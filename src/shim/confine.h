// Confines the shim itself. An attacker who controls a shim has the shim's rights, and these make
// him root of the host. So the shim checks at its start that it has no more than it needs, and
// gives up every system call that it does not need.
#ifndef CGPU_SHIM_CONFINE_H_
#define CGPU_SHIM_CONFINE_H_

#include <set>

#include "base/result.h"
#include "os/privileges.h"

namespace cgpu::shim {

// Checks that the process is not dumpable and has no_new_privs. If no ordinary user started it
// (`user` 0), its uid must not be 0, and every capability set must be exactly `capabilities`.
// kPermission says what is wrong.
[[nodiscard]] Result<> CheckPrivileges(unsigned user,
                                       CapabilityMask capabilities = kShimCapabilities);

// Returns the system calls that a shim of this version needs from its first instruction on: its
// own, and those that the C library makes to start it.
[[nodiscard]] const std::set<int>& NeededSystemCalls();

// Installs that allow-list on all threads. Call it before tenants are attached. The calls that a
// process may make can never grow again, whatever it executes. `allowed` is the list that a
// predecessor left, and on return the list that holds from then on. Installs nothing if the list
// has no more than is needed.
[[nodiscard]] Result<> ConfineSystemCalls(std::set<int>& allowed);

// Confines the helper (interleave.h) in the same way: to messages, and RM_CONTROL as its only
// ioctl.
[[nodiscard]] Result<> ConfineInterleaver();

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_CONFINE_H_
