// The other side of a running node's control socket: one JSON object a line each way.
#ifndef CGPU_SIM_NODE_CONTROL_CLIENT_H_
#define CGPU_SIM_NODE_CONTROL_CLIENT_H_

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "sim/node/node_dir.h"

namespace cgpu::sim {

class ControlClient {
 public:
  // Connects. kNotFound when there is no such node, kUnavailable when its server is gone or does
  // not answer, kPermission when it is somebody else's.
  [[nodiscard]] static Result<ControlClient> Connect(const NodeDir& dir);

  // Sends `request` (JSON, one line) and returns the reply's "result" as JSON text, or the error it
  // carries. Waits as long as the server does.
  [[nodiscard]] Result<std::string> Ask(const std::string& request);
  // Returns the server's process.
  [[nodiscard]] pid_t ServerPid() const { return pid_; }

 private:
  ControlClient(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  UniqueFd socket_;
  pid_t pid_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_CONTROL_CLIENT_H_
