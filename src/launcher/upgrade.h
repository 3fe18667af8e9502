// Hot upgrade: the shims of running containers become another version of themselves, one after the
// other, while the containers go on (shim/handover.h).
#ifndef CGPU_LAUNCHER_UPGRADE_H_
#define CGPU_LAUNCHER_UPGRADE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "registry/registry.h"

namespace cgpu {

struct Upgraded {
  std::string id;
  std::string name;
  // For how long calls had to wait, in microseconds. kConflict: it could not be done now and all is
  // as it was; the sentence says why. kNotFound: the container has ended.
  Result<std::uint64_t> pause_us;
};

// Of `containers` (ids, their unique beginnings, or names), or without any of all; `program` is the
// cgpu-shim they are to become. Those that are busy are tried again a few times.
[[nodiscard]] Result<std::vector<Upgraded>> UpgradeShims(
    const Registry& registry, const std::string& program,
    const std::vector<std::string>& containers);

// Has the node's daemon at `socket` execute its program anew, and waits until it answers. False:
// there is none.
[[nodiscard]] Result<bool> UpgradeDaemon(const std::string& socket);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_UPGRADE_H_
