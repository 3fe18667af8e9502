// Whose processes are: what a user who is not root may say of one.
#ifndef CGPU_KERNEL_OWNERSHIP_H_
#define CGPU_KERNEL_OWNERSHIP_H_

#include <sys/types.h>

namespace cgpu::kernel {

// True if process `pid` is in a user namespace that `user` made, or in one further in: then `user`
// may do to it what root may (user_namespaces(7)), as to all processes of containers that `user`
// runs. False where that cannot be seen. `pid` is a name only: the caller sees to it that it still
// is the same process's afterwards. `proc_fd`: an open /proc. Safe on any thread.
[[nodiscard]] bool IsInNamespaceOf(int proc_fd, pid_t pid, uid_t user);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_OWNERSHIP_H_
