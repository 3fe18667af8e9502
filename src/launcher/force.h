// Ends a container by way of its shim's own descriptors, where the shim does not do as it is told.
#ifndef CGPU_LAUNCHER_FORCE_H_
#define CGPU_LAUNCHER_FORCE_H_

#include <string>

#include "base/result.h"
#include "registry/registry.h"

namespace cgpu {

// Kills every process that the shim of container `id` knows, and the shim if it is there still some
// seconds later. The shim is who runs under the uid of its reservation and holds the socket that
// listens at the very file in the registry, whatever others call theirs. Returns when its admin
// socket is gone and the driver has what it held. kNotFound: it has ended. kPermission: the caller
// may not look into the shim. kUnavailable: it is there still.
[[nodiscard]] Result<> EndByForce(const Registry& registry, const std::string& id);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_FORCE_H_
