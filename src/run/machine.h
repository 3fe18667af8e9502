// Checks whether this host, and this process on it, can run a container at all.
#ifndef CGPU_RUN_MACHINE_H_
#define CGPU_RUN_MACHINE_H_

#include "base/result.h"
#include "sandbox/filter.h"

namespace cgpu {

// Installs the filter that every container runs under on the calling process. That process is made
// for this and exits with the answer: kConflict under another such filter, kUnsupported where the
// kernel lacks it.
using FilterTrial = Result<> (*)(const sandbox::FilterOptions& options);
[[nodiscard]] Result<> InstallForGood(const sandbox::FilterOptions& options);

// Makes the trial in a child process, and a second time without killable waits where the kernel has
// none. Returns what a container's filter can have. kConflict: this is inside a `cgpu run` already.
// kUnsupported: the kernel is too old. kPermission: anything else hinders it.
[[nodiscard]] Result<sandbox::FilterOptions> CheckMachine(FilterTrial trial = InstallForGood);

}  // namespace cgpu

#endif  // CGPU_RUN_MACHINE_H_
