// Tells whether a user who is not root may decide about a process.
#ifndef CGPU_OS_OWNERSHIP_H_
#define CGPU_OS_OWNERSHIP_H_

#include <sys/types.h>

#include <optional>

namespace cgpu::os {

// Returns true if process `pid` is in a user namespace that `user` made, or in one further in. Then
// `user` may do to it what root may (user_namespaces(7)), as to all processes of containers that
// `user` runs. Returns false where that cannot be seen. `pid` is a name only: the caller checks
// afterwards that it is still the same process's. `proc_fd`: an open /proc. Safe on any thread.
[[nodiscard]] bool IsInNamespaceOf(int proc_fd, pid_t pid, uid_t user);

// Returns the user who made the outermost user namespace below this process's own that process
// `pid` is in; `otherwise` if it is in this process's own. Nothing where that cannot be seen. `pid`
// and `proc_fd` are as above.
[[nodiscard]] std::optional<uid_t> OutermostOwner(int proc_fd, pid_t pid, uid_t otherwise);

}  // namespace cgpu::os

#endif  // CGPU_OS_OWNERSHIP_H_
