// `cgpu run`: one command in a container with its slice of each granted card.
#ifndef CGPU_LAUNCHER_RUN_H_
#define CGPU_LAUNCHER_RUN_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/flags.h"
#include "grant/grant.h"

namespace cgpu {

struct RunOptions {
  GrantFlags flags;
  FlagsRequest request;                 // what they come to
  std::string name;                     // empty: one is made up
  std::string node;                     // empty: see FindNode()
  std::string record;                   // a file to record the container's calls in, or empty
  std::string daemon;                   // the socket of the node's daemon
  std::string group;                    // whose members may ask it
  bool alone = false;                   // an ordinary user's: without the daemon
  unsigned max_inst = kDefaultMaxInst;  // see Wish
  std::vector<std::string> command;
};

// Root takes the slice itself. An ordinary user's comes from the node's daemon: reserved among all
// of the node's, under a shim that the user cannot reach. `alone` it is as root's, but reserved
// among that user's own, under a shim of the user's.
//
// Runs the command and waits for its end. Its exit status, 128 + n when signal n ended it, 126 or
// 127 when it could not be executed or found. An error is cgpu's own; then nothing is left running.
//
// Takes over the calling process: its signals, and on success its inherited descriptors but
// standard error. The process must have one thread.
[[nodiscard]] Result<int> RunContainer(const RunOptions& options);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_RUN_H_
