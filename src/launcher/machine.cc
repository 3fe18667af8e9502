#include "launcher/machine.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "kernel/filter.h"
#include "kernel/privileges.h"

namespace cgpu {
namespace {

// What the child found out, as its exit status.
enum Finding { kFine = 0, kNested = 10, kTooOld = 11, kRefused = 12 };

Finding Try(FilterTrial trial) {
  const Result<> tried = trial();
  if (tried.ok()) {
    return kFine;
  }
  switch (tried.error().code) {
    case Code::kConflict:
      return kNested;
    case Code::kUnsupported:
      return kTooOld;
    default:
      return kRefused;
  }
}

}  // namespace

Result<> InstallForGood() {
  CGPU_TRY(SetNoNewPrivileges());
  const auto listener = kernel::InstallGpuFilter({});
  return listener.ok() ? Result<>() : Result<>(listener.error());
}

Result<> CheckMachine(FilterTrial trial) {
  const pid_t child = fork();
  if (child < 0) {
    return ErrnoError(Code::kExhausted, errno, "cannot start a process");
  }
  if (child == 0) {
    _exit(Try(trial));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  switch (WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(kRefused)) {
    case kFine:
      return {};
    case kNested:
      return Error{Code::kConflict, EBUSY,
                   "this process is inside a `cgpu run` already, and slices do not nest",
                   "run it outside, or use the GPUs that this container has"};
    case kTooOld:
      return Error{Code::kUnsupported, 0,
                   "this kernel lacks seccomp user notification with killable waits",
                   "cgpu needs Linux 5.19 or later"};
    default:
      return Error{Code::kPermission, 0, "this process may not install a seccomp filter",
                   "inside a container its engine forbids it: run cgpu on the host"};
  }
}

}  // namespace cgpu
