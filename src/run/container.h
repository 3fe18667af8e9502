// The processes of a container, for the launcher that holds them.
#ifndef CGPU_RUN_CONTAINER_H_
#define CGPU_RUN_CONTAINER_H_

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "run/init.h"

namespace cgpu {

// Owns process 1. The destructor kills the container if it has not ended.
class Container {
 public:
  // Forks process 1 and waits until its command is ready to run. Returns what went wrong inside as
  // it was.
  [[nodiscard]] static Result<Container> Start(const InitOptions& options);

  Container(Container&& other) noexcept;
  Container& operator=(Container&&) = delete;
  ~Container();

  // Returns the seccomp listener, once.
  [[nodiscard]] UniqueFd TakeListener() { return std::move(listener_); }
  // Returns the command's process, as this process's pid namespace numbers it.
  [[nodiscard]] pid_t command_pid() const { return command_pid_; }

  [[nodiscard]] Result<> Go();

  // Passes `signals` on (run/signals.h) until the container has ended, and returns its exit
  // status. If `shim` hangs up first, kills the container: kUnavailable.
  [[nodiscard]] Result<int> Wait(int signals, int shim);

 private:
  Container(pid_t pid, UniqueFd control) : pid_(pid), control_(std::move(control)) {}
  [[nodiscard]] Result<> ReceiveParts();
  [[nodiscard]] Result<int> EndAfterShim();
  // Waits for process 1 to end and returns its exit status. `killed` tells SIGKILL from an exit
  // status that looks like it.
  int Reap(bool* killed = nullptr);

  pid_t pid_ = 0;  // 0 once it was reaped
  UniqueFd control_;
  UniqueFd init_;  // pidfds
  UniqueFd command_;
  UniqueFd listener_;
  pid_t command_pid_ = 0;
};

}  // namespace cgpu

#endif  // CGPU_RUN_CONTAINER_H_
