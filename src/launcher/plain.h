// Running a command on a node without cgpu: every card, no limits, nobody in between.
#ifndef CGPU_LAUNCHER_PLAIN_H_
#define CGPU_LAUNCHER_PLAIN_H_

#include <string>

#include "base/result.h"

namespace cgpu {

// Moves the calling process, which must have one thread, into a mount namespace where all files of
// the simulated node `name` have their usual names, those of the machine's own driver are gone, and
// the working directory is what it was. After an error the process is good for nothing else.
[[nodiscard]] Result<> EnterPlainNode(const std::string& name);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_PLAIN_H_
