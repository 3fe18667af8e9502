// Enters the namespaces that separate a command from the machine it runs on.
#ifndef CGPU_OS_NAMESPACES_H_
#define CGPU_OS_NAMESPACES_H_

#include <sys/types.h>

#include "base/result.h"

namespace cgpu {

// Forks into a private mount namespace, a user namespace when the caller is not root, and the
// namespaces that `extra_flags` (CLONE_NEW*) name. With CLONE_NEWPID the child is process 1.
// Returns 0 in the child, which must call SetUpNamespaces() with the parent's ids before anything
// else. Errors as EnterPrivateNamespaces().
[[nodiscard]] Result<pid_t> ForkIntoNamespaces(int extra_flags);
[[nodiscard]] Result<> SetUpNamespaces(uid_t uid, gid_t gid);

// Moves the calling process, which must have one thread, into a mount namespace of its own whose
// mounts neither come from nor go to the machine (MS_REC|MS_PRIVATE). A process that is not root
// enters a user namespace first. In it, its uid and gid map to themselves, and it has every
// capability until it drops them or executes a program.
//
// `extra_flags` are further CLONE_NEW* flags to unshare in the same step. With CLONE_NEWPID only
// children are in the new pid namespace, as always.
//
// kPermission: the kernel or a policy of the machine refuses. kUnsupported: it has no such
// namespaces. kExhausted: it has no room for more.
[[nodiscard]] Result<> EnterPrivateNamespaces(int extra_flags = 0);

}  // namespace cgpu

#endif  // CGPU_OS_NAMESPACES_H_
