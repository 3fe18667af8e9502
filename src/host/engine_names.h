// Finds what container engines call their containers. The OCI interface does not say it, and a user
// may change it while a container runs: so it is read anew where somebody asks.
#ifndef CGPU_HOST_ENGINE_NAMES_H_
#define CGPU_HOST_ENGINE_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/reservation.h"
#include "protocol/admin.h"

namespace cgpu {

// Puts the names of engines in the place of ours, where they can be read and a container of cgpu
// could have such a name. They are the engine's word or its user's. Forms of
// Reservation::names_file:
//
// * Docker's config.v2.json: an object whose "Name" is a slash and the name (github.com/moby/moby,
//   daemon/container/container.go).
// * containers.json of podman's storage: a list of objects with "id" and "names"
//   (github.com/containers/storage, containers.go).
[[nodiscard]] std::vector<Reservation> WithEngineNames(std::vector<Reservation> live);

// Gives each container the name that `named`, what WithEngineNames() returned, has for it.
void TakeNames(const std::vector<Reservation>& named, std::vector<ContainerStatus>& containers);

// Returns the container of `named` with this id, beginning of an id, or name. kNotFound. kInvalid:
// several have this name, or ids that begin so.
[[nodiscard]] Result<Reservation> FindNamed(std::string_view reference,
                                            const std::vector<Reservation>& named);

}  // namespace cgpu

#endif  // CGPU_HOST_ENGINE_NAMES_H_
