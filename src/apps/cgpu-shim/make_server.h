// The shim's server from what the launcher said, or from what a predecessor left.
#ifndef CGPU_APPS_CGPU_SHIM_MAKE_SERVER_H_
#define CGPU_APPS_CGPU_SHIM_MAKE_SERVER_H_

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "registry/config.h"
#include "shim/handover.h"
#include "shim/server.h"

namespace cgpu::shim {

[[nodiscard]] Result<std::unique_ptr<Server>> MakeServer(const ShimConfig& config, UniqueFd record);

// With all that was known. `for_good`: with its descriptors; else only to see whether it can be.
[[nodiscard]] Result<std::unique_ptr<Server>> MakeServerAgain(const Handover& state, bool for_good);

}  // namespace cgpu::shim

#endif  // CGPU_APPS_CGPU_SHIM_MAKE_SERVER_H_
