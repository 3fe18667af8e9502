// Runs a command on a node without cgpu: every GPU, no limits, no shim.
#ifndef CGPU_RUN_PLAIN_H_
#define CGPU_RUN_PLAIN_H_

#include <string>

#include "base/result.h"

namespace cgpu {

// Moves the calling process, which must have one thread, into a mount namespace of its own. There
// all files of the simulated node `name` have their usual names, those of the host's own driver are
// gone, and the working directory is what it was. The node's libraries are offered to the loader.
// After an error the process is good for nothing else.
[[nodiscard]] Result<> EnterPlainNode(const std::string& name);

}  // namespace cgpu

#endif  // CGPU_RUN_PLAIN_H_
