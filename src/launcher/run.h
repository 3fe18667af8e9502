// `cgpu run`: one command in a container with its slice of each granted card.
#ifndef CGPU_LAUNCHER_RUN_H_
#define CGPU_LAUNCHER_RUN_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "grant/grant.h"
#include "grant/request.h"

namespace cgpu {

struct RunOptions {
  ResourceRequest request;
  ComputeRequest compute;
  std::string name;                     // empty: one is made up
  std::string node;                     // empty: see FindNode()
  std::string origin;                   // of the request, see Reservation
  std::string record;                   // a file to record the container's calls in, or empty
  unsigned max_inst = kDefaultMaxInst;  // see Wish
  std::vector<std::string> command;
};

// Runs the command and waits for its end. Its exit status, 128 + n when signal n ended it, 126 or
// 127 when it could not be executed or found. An error is cgpu's own; then nothing is left running.
//
// Takes over the calling process: its signals, and on success its inherited descriptors but
// standard error. The process must have one thread.
[[nodiscard]] Result<int> RunContainer(const RunOptions& options);

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_RUN_H_
