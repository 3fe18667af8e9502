#include "run/machine.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/child.h"
#include "os/privileges.h"

namespace cgpu {
namespace {

// The child's finding, as its exit status.
enum Finding { kFine = 0, kNested = 10, kTooOld = 11, kRefused = 12 };

Finding Judge(const Result<>& tried) {
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

// Makes the trial in a child process, which the filter dies with.
Result<Finding> Try(FilterTrial trial, const sandbox::FilterOptions& options) {
  CGPU_ASSIGN_OR_RETURN(const auto child, Fork());
  if (child == 0) {
    _exit(Judge(trial(options)));
  }
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  return WIFEXITED(status) ? static_cast<Finding>(WEXITSTATUS(status)) : kRefused;
}

}  // namespace

Result<> InstallForGood(const sandbox::FilterOptions& options) {
  CGPU_TRY(SetNoNewPrivileges());
  const auto listener = sandbox::InstallGpuFilter(options);
  return listener.ok() ? Result<>() : Result<>(listener.error());
}

Result<sandbox::FilterOptions> CheckMachine(FilterTrial trial) {
  sandbox::FilterOptions options;
  CGPU_ASSIGN_OR_RETURN(auto finding, Try(trial, options));
  if (finding == kTooOld) {
    options.killable_wait = false;
    CGPU_ASSIGN_OR_RETURN(finding, Try(trial, options));
  }
  switch (finding) {
    case kFine:
      return options;
    case kNested:
      return Error{Code::kConflict, EBUSY,
                   "this process is inside a `cgpu run` already, and slices do not nest",
                   "run it outside, or use the GPUs that this container has"};
    case kTooOld:
      return Error{Code::kUnsupported, 0, "this kernel lacks seccomp user notification",
                   "cgpu needs Linux 5.10 or later"};
    default:
      return Error{Code::kPermission, 0, "this process may not install a seccomp filter",
                   "inside a container its engine forbids it: run cgpu on the host"};
  }
}

}  // namespace cgpu
