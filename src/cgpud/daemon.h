// cgpud's main loop takes requests at its socket. It knows of containers only what the registry and
// their shims say. So cgpud may end and begin again at any time; no container notices.
//
// A child process of its own serves each request: the loop has one thread, and a request that waits
// or fails does not hold it up.
#ifndef CGPU_CGPUD_DAEMON_H_
#define CGPU_CGPUD_DAEMON_H_

#include <string>

#include "base/result.h"
#include "runtime/settings.h"

namespace cgpu {

// Serves until SIGTERM or SIGINT. On SIGHUP the process executes its program again, as it then is,
// with `argv` (null at its end) and the socket; clients that ask meanwhile wait. Tells systemd when
// it is ready (sd_notify(3)). `version`: this program's. kConflict: another one runs; kPermission:
// not root.
[[nodiscard]] Result<> RunDaemon(const Settings& settings, char* const* argv,
                                 const std::string& version);

}  // namespace cgpu

#endif  // CGPU_CGPUD_DAEMON_H_
