// Lists processes that use the host's GPUs outside of every slice: plain containers, programs of
// the host, NVIDIA's own daemons.
#ifndef CGPU_HOST_UNMANAGED_H_
#define CGPU_HOST_UNMANAGED_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "host/node.h"
#include "host/registry.h"

namespace cgpu {

struct UnmanagedProcess {
  unsigned pid = 0;
  unsigned user = 0;               // uid
  std::string command;             // as /proc/PID/comm has it: the process chooses it
  std::vector<std::string> files;  // files of the node that it has open: "nvidiactl", "nvidia0"
};

// Returns the processes that have files of `node` open and are in no container of `registry`, in
// the order of their numbers. A container's process is known by its mount namespace, or by a pid
// namespace in or below the container's. Containers of other registries (of users without rights)
// and containers whose shim does not answer are not known. A process that comes or goes meanwhile
// may be missed. kPermission unless the caller is root: nobody else sees all files.
[[nodiscard]] Result<std::vector<UnmanagedProcess>> ListUnmanaged(const Registry& registry,
                                                                  const Node& node);

}  // namespace cgpu

#endif  // CGPU_HOST_UNMANAGED_H_
