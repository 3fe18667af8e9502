// The node's own library of NVML (sim/nvml), where this program's installation has it.
#ifndef CGPU_SIM_NODE_LIBRARIES_H_
#define CGPU_SIM_NODE_LIBRARIES_H_

#include <string>

namespace cgpu::sim {

inline constexpr char kNvmlName[] = "libnvidia-ml.so.1";
// Place where programs of a container look for it: that of Debian's libraries, to which NVIDIA's
// container toolkit mounts the driver's.
inline constexpr char kContainerFolder[] = "/usr/lib/x86_64-linux-gnu";

// Returns the folder that holds it, as an absolute path: lib/cgpu beside the program's folder, or
// that of a build. Empty: there is none.
[[nodiscard]] std::string NvmlFolder();

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_LIBRARIES_H_
