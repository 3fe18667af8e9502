// Tells the shims of root's containers from other processes: each shim runs under a user of its
// own.
#ifndef CGPU_EXPORTER_SHIM_USERS_H_
#define CGPU_EXPORTER_SHIM_USERS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace cgpu::exporter {

// Returns the user that a process runs under; nothing: it has ended.
[[nodiscard]] std::optional<uid_t> UserOf(std::uint32_t pid);

// Returns whether only a shim runs under this user.
[[nodiscard]] bool IsShimUser(uid_t user);

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_SHIM_USERS_H_
