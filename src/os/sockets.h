// Finds sockets by what the kernel says of them, not by the names that their makers gave them.
#ifndef CGPU_OS_SOCKETS_H_
#define CGPU_OS_SOCKETS_H_

#include <string>

#include "base/result.h"
#include "os/process.h"

namespace cgpu::os {

// Returns the identity of the socket that listens at the file `path`: that which Identify() returns
// for its descriptor. Does not confuse it with a socket that was bound to the same path in another
// mount namespace, because that is another file. kNotFound: there is no such file, or nobody of
// this network namespace listens at it. kUnsupported: the kernel does not say (unix_diag).
[[nodiscard]] Result<FileIdentity> ListenerAt(const std::string& path);

}  // namespace cgpu::os

#endif  // CGPU_OS_SOCKETS_H_
