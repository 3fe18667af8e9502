// Ends a container through its shim's own descriptors, where the shim does not do as it is told.
#ifndef CGPU_HOST_FORCE_H_
#define CGPU_HOST_FORCE_H_

#include <string>

#include "base/result.h"
#include "host/registry.h"

namespace cgpu {

// Kills every process that the shim of container `id` knows, and the shim if it is still there some
// seconds later. The shim is the process that runs under the uid of its reservation and holds the
// socket that listens at the very file in the registry, whatever other processes call theirs.
// Returns when its admin socket is gone and the driver has what it held. kNotFound: it has ended.
// kPermission: the caller may not look into the shim. kUnavailable: it is still there.
[[nodiscard]] Result<> EndByForce(const Registry& registry, const std::string& id);

}  // namespace cgpu

#endif  // CGPU_HOST_FORCE_H_
