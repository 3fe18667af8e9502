// Reads what `cgpu run` asks for: its flags, and the environment for what no flag says. Pure.
#ifndef CGPU_GRANT_FLAGS_H_
#define CGPU_GRANT_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grant/request.h"

namespace cgpu {

// Flags as written; absent ones ask for nothing.
struct GrantFlags {
  std::optional<std::string> gpus;
  std::optional<std::string> memory;
  std::optional<std::string> units;
  // Compute time. With any of these, the environment's compute variables do not count.
  std::optional<std::string> compute;
  std::optional<std::string> compute_max;
  std::optional<std::string> weight;
  std::optional<std::string> priority;
  std::vector<std::string> environment;  // NAME=VALUE entries that may concern a grant
};

// Returns the compute request of the flags that are there. kInvalid, with the flag's name.
[[nodiscard]] Result<ComputeRequest> ComputeOf(const GrantFlags& flags);

// Returns the whole request, which has no name and no user yet. kInvalid and kConflict as from the
// parsers of request.h and env.h.
[[nodiscard]] Result<SliceRequest> RequestOf(const GrantFlags& flags);

}  // namespace cgpu

#endif  // CGPU_GRANT_FLAGS_H_
