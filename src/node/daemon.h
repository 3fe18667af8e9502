// cgpud's main loop: takes requests at its socket. What it knows of containers is what the registry
// and their shims say, so it may end and begin again at any time; none of them notices.
//
// Each request is seen to by a child process of its own: the loop has one thread, and a request
// that waits or fails keeps nobody.
#ifndef CGPU_NODE_DAEMON_H_
#define CGPU_NODE_DAEMON_H_

#include "base/result.h"
#include "runtime/settings.h"

namespace cgpu {

// Serves until SIGTERM or SIGINT. On SIGHUP the process executes its program anew, as it then is,
// with `argv` (null at its end) and the socket: whoever asks meanwhile waits. Tells systemd when it
// is ready (sd_notify(3)). kConflict: another one runs; kPermission: not root.
[[nodiscard]] Result<> RunDaemon(const Settings& settings, char* const* argv);

}  // namespace cgpu

#endif  // CGPU_NODE_DAEMON_H_
