// Process 1 of a container. It makes the container's world around itself, starts the command in it,
// and then only reaps until the command ends.
#ifndef CGPU_RUN_INIT_H_
#define CGPU_RUN_INIT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "run/signals.h"
#include "sandbox/filter.h"
#include "sandbox/mount_tree.h"

namespace cgpu {

struct InitOptions {
  GpuTree tree;
  std::vector<std::string> command;  // at least one word
  std::string working_directory;
  std::vector<int> inherited;  // descriptors for the command
  SignalState signals;         // for the command
  sandbox::FilterOptions filter;
  uid_t uid = 0;  // uid of the launcher, in its own namespaces
  gid_t gid = 0;
};

// Runs process 1. Call it in a child from ForkIntoNamespaces(CLONE_NEWPID); it never returns. It
// talks over the message socket `control`, with the launcher at the other end:
//   init      "listener" and the seccomp listener, then "pid" and a pidfd of the waiting command;
//             or "error CODE WHAT HINT" at any point, and exits
//   launcher  "go": the command runs
// It exits with the command's status, or 128 + n when signal n ended the command. It dies with the
// launcher.
[[noreturn]] void RunInit(const InitOptions& options, int control);

}  // namespace cgpu

#endif  // CGPU_RUN_INIT_H_
