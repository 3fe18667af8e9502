// The shim's own confinement. What it holds makes whoever takes a shim over root of the host,
// so the shim checks at its start that it has no more than that, and gives up every system call it
// does not need.
#ifndef CGPU_SHIM_CONFINE_H_
#define CGPU_SHIM_CONFINE_H_

#include "base/result.h"

namespace cgpu::shim {

// Not dumpable, no new privileges; and when not started by an ordinary user (`user` 0): a uid other
// than 0, and kShimCapabilities (kernel/privileges.h), no more and no less, in every capability
// set. kPermission says what is wrong.
[[nodiscard]] Result<> CheckPrivileges(unsigned user);

// Installs the allow-list of system calls on all threads. Call before tenants are served.
[[nodiscard]] Result<> ConfineSystemCalls();

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_CONFINE_H_
