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

// Returns the name that an engine's file has for its container with this id; "": none that can be
// read, or none that a container of cgpu could have. It is the engine's word or its user's. Forms:
//
// * Docker's config.v2.json: an object whose "Name" is a slash and the name (github.com/moby/moby,
//   daemon/container/container.go).
// * containers.json of podman's storage: a list of objects with "id" and "names"
//   (github.com/containers/storage, containers.go).
[[nodiscard]] std::string EngineName(const std::string& file, std::string_view engine_id);

// Puts the names of engines in the place of ours, where they can be read.
void UseEngineNames(const std::vector<Reservation>& live, std::vector<ContainerStatus>& containers);

// Returns the id of the container with this id, beginning of an id, or name, an engine's included.
// kNotFound. kInvalid: several have this name, or ids that begin so.
[[nodiscard]] Result<std::string> FindId(std::string_view reference, std::vector<Reservation> live);

}  // namespace cgpu

#endif  // CGPU_HOST_ENGINE_NAMES_H_
