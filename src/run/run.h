// Implements `cgpu run`: one command in a container with its slice of each granted GPU.
#ifndef CGPU_RUN_RUN_H_
#define CGPU_RUN_RUN_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/flags.h"
#include "protocol/config.h"

namespace cgpu {

struct RunOptions {
  GrantFlags flags;
  SliceRequest request;                   // request that they come to
  std::string node;                       // empty: see FindNode()
  std::string record;                     // file to record the container's calls in, or empty
  std::string daemon;                     // cgpud's socket
  std::vector<FirmwareControl> firmware;  // for a slice that does not come from cgpud
  std::string group;                      // group whose members may ask it
  bool alone = false;                     // for an ordinary user: without the daemon
  std::vector<std::string> command;
};

// Runs the command in a container and waits for its end. Root takes the slice itself. An ordinary
// user's slice comes from cgpud: reserved among all of the host's, under a shim that the user
// cannot reach. With `alone` it is as for root, but reserved among that user's own, under a shim of
// the user's.
//
// Returns the command's exit status, 128 + n when signal n ended it, 126 or 127 when it could not
// be executed or found. An error is cgpu's own; then nothing is left running.
//
// Takes over the calling process: its signals, and on success its inherited descriptors except
// standard error. The process must have one thread.
[[nodiscard]] Result<int> RunContainer(const RunOptions& options);

}  // namespace cgpu

#endif  // CGPU_RUN_RUN_H_
