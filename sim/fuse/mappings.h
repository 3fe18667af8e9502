// Which processes have files of nvidia-uvm mapped, from /proc.
#ifndef CGPU_SIM_FUSE_MAPPINGS_H_
#define CGPU_SIM_FUSE_MAPPINGS_H_

#include <cstdint>
#include <set>

#include "sim/fuse/open_files.h"
#include "sim/fuse/proc_caller.h"
#include "sim/model/uvm_seen.h"

namespace cgpu::sim {

// Looks at these processes, or at all when there are none. May wait for a process that changes its
// own mappings: never under the driver's lock.
[[nodiscard]] UvmSeen LookAtMappings(const NodeIdentity& node, const OpenFiles& files,
                                     std::set<std::uint32_t> processes);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_MAPPINGS_H_
