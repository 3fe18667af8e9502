// Finds out whether an OCI runtime can give a container's filter waits that only fatal signals end
// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV): a call that waits so is never made twice. runc can from
// 1.5 on and says so (`runc features`, opencontainers/runtime-spec features-linux.md). crun can
// from 1.6 on, which had no such command then. A runtime that is given a flag that it does not know
// makes no container.
#ifndef CGPU_RUNTIME_FEATURES_H_
#define CGPU_RUNTIME_FEATURES_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu {

// Returns whether the runtime can, from what `RUNTIME features` and `RUNTIME --version` print.
// Pure; text that is not understood means no.
[[nodiscard]] bool WaitsKillably(std::string_view features, std::string_view version);

// Asks the program, a name to find in PATH or a path. It has seconds to answer and to end. Errors:
// it cannot be executed, or does not end.
[[nodiscard]] Result<bool> AskForKillableWaits(const std::string& program);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_FEATURES_H_
