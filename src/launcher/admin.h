// What can be asked of running containers and changed about them, from outside.
#ifndef CGPU_LAUNCHER_ADMIN_H_
#define CGPU_LAUNCHER_ADMIN_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/request.h"
#include "registry/admin.h"
#include "registry/registry.h"

namespace cgpu {

// A living container whose shim gives no answer: what its reservation says, with this state.
inline constexpr char kUnresponsive[] = "unresponsive";

// All living containers, oldest first.
[[nodiscard]] Result<std::vector<ContainerStatus>> ListContainers(const Registry& registry);

struct MemoryChange {
  std::string container;  // id, its unique beginning, or name
  std::string gpu;        // index inside the container or UUID; empty: all its cards
  MemoryRequest memory;
};

// Changes the limit while the container runs, after checking that the sums of grants still fit the
// cards. A limit below what is in use takes nothing away, and what is in use then stays reserved
// until the limit is set again. Returns the changed cards as they are then. kNotFound for an
// unknown or ended container or card, kExhausted when it does not fit, kUnsupported for one that is
// not held to a limit.
[[nodiscard]] Result<std::vector<CardStatus>> ChangeMemory(const Registry& registry,
                                                           const MemoryChange& change);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_ADMIN_H_
