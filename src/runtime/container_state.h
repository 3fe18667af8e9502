// Finds the bundle of a container that runs, in what its OCI runtime keeps of it: runc's state.json
// (libcontainer/container.go, the label "bundle") and crun's status (src/libcrun/status.c).
#ifndef CGPU_RUNTIME_CONTAINER_STATE_H_
#define CGPU_RUNTIME_CONTAINER_STATE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu {

// Returns the bundle's folder. `root`: the folder where the runtime keeps its containers; empty:
// where runc and crun keep them by themselves. kNotFound: neither knows the container there.
[[nodiscard]] Result<std::string> BundleOf(const std::string& root, const std::string& id);

// Parse what they keep. kNotFound: no bundle is named. Pure.
[[nodiscard]] Result<std::string> BundleInRuncState(std::string_view text);
[[nodiscard]] Result<std::string> BundleInCrunStatus(std::string_view text);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_CONTAINER_STATE_H_
