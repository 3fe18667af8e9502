// One seccomp listener of the container: that of its first process, or of a process that was
// brought into it later (an engine's `exec`). Its notifications are answered through it.
#ifndef CGPU_SHIM_SOURCE_H_
#define CGPU_SHIM_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "os/notify.h"

namespace cgpu::shim {

class Source {
 public:
  explicit Source(std::unique_ptr<os::NotifyChannel> taken)
      : listener(*taken), owned_(std::move(taken)) {}

  const os::NotifyChannel& listener;

 private:
  // Guarded by the lock of the pool, which clang cannot be told.
  friend class WorkerPool;
  const std::unique_ptr<os::NotifyChannel> owned_;
  pid_t pid_ = 0;               // the first process under the filter; 0: not known
  UniqueFd process_;            // its pidfd
  std::uint64_t started_ = 0;   // when it began (os/start_time.h); 0: not known
  int listening_ = 0;           // threads that take its calls
  bool over_ = false;           // no process is left under the filter
  std::vector<pid_t> waiting_;  // threads of ours in Receive(), or just before or after it
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SOURCE_H_
