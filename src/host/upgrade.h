// Hot upgrade: the shims of running containers become another version of themselves, one after the
// other, while the containers go on (shim/handover.h).
#ifndef CGPU_HOST_UPGRADE_H_
#define CGPU_HOST_UPGRADE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/registry.h"

namespace cgpu {

struct Upgraded {
  std::string id;
  std::string name;
  // Time that calls had to wait, in microseconds. kConflict: it could not be done now; the sentence
  // says why. kUnsupported: the program cannot take over the state. kUnavailable: the shim gives no
  // answer. In these cases all is as it was. kInternal: nobody can say what became of it.
  // kNotFound: the container has ended.
  Result<std::uint64_t> pause_us;
};

// Upgrades the shims of `containers` (ids, their unique beginnings, or names), or of all if there
// are none. `program` is the cgpu-shim that they become. Shims that are busy are tried again a few
// times.
[[nodiscard]] Result<std::vector<Upgraded>> UpgradeShims(
    const Registry& registry, const std::string& program,
    const std::vector<std::string>& containers);

// Has cgpud at `socket` execute its program again, and waits until it answers. Returns false where
// there is no daemon.
[[nodiscard]] Result<bool> UpgradeDaemon(const std::string& socket);

}  // namespace cgpu

#endif  // CGPU_HOST_UPGRADE_H_
