// Whether this machine, and this process on it, can run a container at all.
#ifndef CGPU_LAUNCHER_MACHINE_H_
#define CGPU_LAUNCHER_MACHINE_H_

#include "base/result.h"

namespace cgpu {

// Tries the seccomp filter in a child process. kConflict: this is inside a `cgpu run` already.
// kUnsupported: the kernel is too old.
[[nodiscard]] Result<> CheckMachine();

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_MACHINE_H_
