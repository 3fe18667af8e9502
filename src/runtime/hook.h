// The createContainer hook of a slice's container: `cgpu-runtime hook ARGUMENTS`, which an OCI
// runtime calls in the container's mount namespace when its mounts are made and it has not gone
// there yet (opencontainers/runtime-spec config.md, "POSIX-platform Hooks"). What a configuration
// cannot say is done here: links in /dev, and what /proc and /sys show of the GPUs.
//
// The program's path is looked up among the node's files, but in the container's mount and user
// namespace: it, the bundle and what the arguments name must be readable there.
#ifndef CGPU_RUNTIME_HOOK_H_
#define CGPU_RUNTIME_HOOK_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Mounts the tree that `arguments` describe (kernel/tree_words.h) in the container whose state
// `state_fd` has (runtime-spec runtime.md, "State");
// see MountGpuTreeAt() for what is asked of the process, and what becomes of it. Of the state and
// of the bundle's configuration only the place of the root file system and the container having a
// mount namespace of its own are used. kInvalid when they are not as OCI's specification says.
// On error the container must not start.
[[nodiscard]] Result<> RunHook(const std::vector<std::string>& arguments, int state_fd);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_HOOK_H_
