// Which sockets there are, by what the kernel says of them and not by what their makers called
// them.
#ifndef CGPU_KERNEL_SOCKETS_H_
#define CGPU_KERNEL_SOCKETS_H_

#include <string>

#include "base/result.h"
#include "kernel/process.h"

namespace cgpu::kernel {

// The socket that listens at the file `path`, as Identify() has a descriptor of it. One that was
// bound to the same words in another mount namespace is at another file, and is not taken for it.
// kNotFound: there is no such file, or nobody of this network namespace listens at it.
// kUnsupported: the kernel does not say (unix_diag).
[[nodiscard]] Result<FileIdentity> ListenerAt(const std::string& path);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_SOCKETS_H_
