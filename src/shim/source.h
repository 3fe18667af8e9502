// One seccomp listener of the container: that of its first process, or of a process that was
// brought into it later (an engine's `exec`). Its notifications are answered through it.
#ifndef CGPU_SHIM_SOURCE_H_
#define CGPU_SHIM_SOURCE_H_

#include <sys/types.h>

#include <vector>

#include "base/fd.h"
#include "kernel/notify.h"

namespace cgpu::shim {

struct Source {
  explicit Source(kernel::NotifyListener taken) : listener(std::move(taken)) {}

  const kernel::NotifyListener listener;

  // The rest is guarded by Server::listen_mutex_.
  pid_t pid = 0;               // the first process under the filter; 0: not known
  UniqueFd process;            // its pidfd
  int listening = 0;           // threads that take its calls
  bool over = false;           // no process is left under the filter
  std::vector<pid_t> waiting;  // threads of ours in listener.Receive(), or just before or after it
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SOURCE_H_
