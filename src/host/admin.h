// Questions to running containers, and changes to them, from outside.
#ifndef CGPU_HOST_ADMIN_H_
#define CGPU_HOST_ADMIN_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/request.h"
#include "host/registry.h"
#include "protocol/admin.h"

namespace cgpu {

// State of a living container whose shim gives no answer. The rest is from its reservation.
inline constexpr char kUnresponsive[] = "unresponsive";

// Returns all living containers, oldest first.
[[nodiscard]] Result<std::vector<ContainerStatus>> ListContainers(const Registry& registry);
// Returns those of `recorded` that live, in their order.
[[nodiscard]] std::vector<ContainerStatus> ListContainers(const Registry& registry,
                                                          const std::vector<Reservation>& recorded);
// Returns all with the processes of each GPU. A shim may be asked for them and for the rest at
// slightly different moments. A shim that does not name them costs no time of its own.
[[nodiscard]] Result<std::vector<ContainerStatus>> ListWithProcesses(const Registry& registry);

struct MemoryChange {
  std::string container;  // id, unique beginning of an id, or name
  std::string gpu;        // index inside the container or UUID; empty: all its GPUs
  MemoryRequest memory;
};

// Changes the limit while the container runs, after checking that the sums of grants still fit the
// GPUs. A limit below what is in use takes nothing away, and what is in use then stays reserved
// until the limit is set again. Returns the changed GPUs as they are then. kNotFound: the container
// or the GPU is unknown or has ended. kExhausted: it does not fit. kUnsupported: the container is
// not held to a limit.
[[nodiscard]] Result<std::vector<GpuStatus>> ChangeMemory(const Registry& registry,
                                                          const MemoryChange& change);

}  // namespace cgpu

#endif  // CGPU_HOST_ADMIN_H_
