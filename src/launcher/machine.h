// Whether this machine, and this process on it, can run a container at all.
#ifndef CGPU_LAUNCHER_MACHINE_H_
#define CGPU_LAUNCHER_MACHINE_H_

#include "base/result.h"

namespace cgpu {

// Installs what every container runs under on the calling process, which is one made for this and
// exits with the answer: kConflict under another such filter, kUnsupported where the kernel lacks
// it.
using FilterTrial = Result<> (*)();
[[nodiscard]] Result<> InstallForGood();

// Makes the trial in a child process. kConflict: this is inside a `cgpu run` already. kUnsupported:
// the kernel is too old. kPermission: whatever else hinders it.
[[nodiscard]] Result<> CheckMachine(FilterTrial trial = InstallForGood);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_MACHINE_H_
