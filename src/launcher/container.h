// A container's processes as their launcher holds them.
#ifndef CGPU_LAUNCHER_CONTAINER_H_
#define CGPU_LAUNCHER_CONTAINER_H_

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/init.h"

namespace cgpu {

// Owns process 1; the container is killed when this goes out of scope before its end.
class Container {
 public:
  // Forks process 1 and waits until its command is ready to run. What went wrong inside comes back
  // as it was.
  [[nodiscard]] static Result<Container> Start(const InitOptions& options);

  Container(Container&& other) noexcept;
  Container& operator=(Container&&) = delete;
  ~Container();

  // The seccomp listener, once.
  [[nodiscard]] UniqueFd TakeListener() { return std::move(listener_); }
  // The command's process, in this process's pid namespace.
  [[nodiscard]] pid_t command_pid() const { return command_pid_; }

  [[nodiscard]] Result<> Go();

  // Passes `signals` on (launcher/signals.h) until the container has ended; its exit status. If
  // `shim` hangs up first the container is killed: kUnavailable.
  [[nodiscard]] Result<int> Wait(int signals, int shim);

 private:
  Container(pid_t pid, UniqueFd control) : pid_(pid), control_(std::move(control)) {}
  [[nodiscard]] Result<> ReceiveParts();
  [[nodiscard]] Result<int> EndAfterShim();
  // `killed` tells SIGKILL from an exit status that looks like it.
  int Reap(bool* killed = nullptr);

  pid_t pid_ = 0;  // 0 once it was reaped
  UniqueFd control_;
  UniqueFd init_;  // pidfds
  UniqueFd command_;
  UniqueFd listener_;
  pid_t command_pid_ = 0;
};

}  // namespace cgpu

#endif  // CGPU_LAUNCHER_CONTAINER_H_
