// Makes the shim's server from the launcher's configuration, or from a predecessor's state.
#ifndef CGPU_APPS_CGPU_SHIM_MAKE_SERVER_H_
#define CGPU_APPS_CGPU_SHIM_MAKE_SERVER_H_

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "protocol/config.h"
#include "shim/handover.h"
#include "shim/server.h"

namespace cgpu::shim {

[[nodiscard]] Result<std::unique_ptr<Server>> MakeServer(const ShimConfig& config, UniqueFd record);

// Makes the server with everything that the predecessor knew. `for_good`: with its descriptors;
// else only to test whether it can be made.
[[nodiscard]] Result<std::unique_ptr<Server>> MakeServerAgain(const Handover& state, bool for_good);

}  // namespace cgpu::shim

#endif  // CGPU_APPS_CGPU_SHIM_MAKE_SERVER_H_
