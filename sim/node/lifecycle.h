// Starting and stopping nodes, from outside their server.
#ifndef CGPU_SIM_NODE_LIFECYCLE_H_
#define CGPU_SIM_NODE_LIFECYCLE_H_

#include <string>

#include "base/result.h"
#include "sim/gpu/options.h"
#include "sim/node/node_dir.h"

namespace cgpu::sim {

struct StartOptions {
  std::string gpus;    // as ParseGpus() takes it
  std::string driver;  // a branch, as "550", or a full version
  std::string server;  // path of the program cgpu-sim
  GpuOptions gpu;
  std::string hang_rules = "all";  // as ParseHangRules() takes it
  std::string slices_take_effect;  // as ParseSliceEffect() takes it
  std::string channels_go_off;     // as ParseDisableEffect() takes it
  bool no_caps = false;            // cgpu is to take no channels off by the clock
};

// Starts a node's server in the background and returns when it answers. Needs root,
// /dev/fuse, CAP_SYS_ADMIN and CAP_SYS_PTRACE: kPermission without them. First clears what an
// earlier server left behind that was killed.
[[nodiscard]] Result<> StartNode(const NodeDir& dir, const StartOptions& options);

// Ends a node's server and takes away its mount and folder, also when the server was killed or does
// not answer.
[[nodiscard]] Result<> StopNode(const NodeDir& dir);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_LIFECYCLE_H_
