// The createContainer hook of a slice's container: `cgpu-runtime hook ARGUMENTS`. An OCI runtime
// calls it in the container's mount namespace when the mounts are made, before the runtime goes
// there itself (opencontainers/runtime-spec config.md, "POSIX-platform Hooks"). The hook does what
// a configuration cannot say: links in /dev, and what /proc and /sys show of the GPUs.
//
// The runtime looks the program's path up among the host's files, but in the container's mount and
// user namespace: the program, the bundle and what the arguments name must be readable there.
#ifndef CGPU_RUNTIME_HOOK_H_
#define CGPU_RUNTIME_HOOK_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Mounts the tree that `arguments` describe (sandbox/tree_words.h) in the container whose state
// `state_fd` has (runtime-spec runtime.md, "State"). MountGpuTreeAt() says what is asked of the
// process, and what becomes of it. Of the state and of the bundle's configuration only two things
// are used: the place of the root file system, and whether the container has a mount namespace of
// its own. kInvalid: they are not as OCI's specification says. On error the container must not
// start.
[[nodiscard]] Result<> RunHook(const std::vector<std::string>& arguments, int state_fd);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_HOOK_H_
