// The part of the server that takes descriptors of the tenants' processes.
//
// A taken file has to be closed, and its file system takes part in every close: a FUSE server of
// the tenant's own answers that when it likes. So a file is looked at before it is taken, which
// asks no such server, and is taken only if it is a GPU's. A number that led to one before is taken
// without the look, which costs more than the taking. If a tenant puts another file there
// afterwards, numbers are no longer trusted in its whole container, and the file that came is not
// closed.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/result.h"
#include "os/spare.h"
#include "shim/server.h"

namespace cgpu::shim {
namespace {

// Timeout for room among the files to close, with a worker's thread.
constexpr std::chrono::milliseconds kPatience{1'000};

}  // namespace

void Server::Discard(UniqueFd file) {
  if (file.valid() && !reaper_->Add(file, kPatience)) {
    Condemn("more files whose close does not return than any program has: the container is ended");
    (void)file.release();  // its close is what cannot be waited for
  }
}

void Server::KillContainer() {
  for (const auto& process : callers_->Processes()) {
    (void)syscall(SYS_pidfd_send_signal, process->pidfd.get(), SIGKILL, nullptr, 0);
  }
  pool_.KillRoots();
}

// Ends the container. Until it is gone nothing more of it is taken or executed.
void Server::Condemn(const std::string& why) {
  if (!condemned_.exchange(true)) {
    accounting_.CountRefused(why);
    KillContainer();
  }
}

// Looks at the caller's file under the number; nothing: it is not a GPU's. ESRCH: the thread is
// gone. EBADF: it has no such descriptor.
Result<std::optional<boundary::File>> Server::LookAt(const os::Caller& caller, int number) const {
  const auto identity = caller.Identify(callers_->proc_fd(), number);
  if (identity.ok()) {
    return Recognise(*identity);
  }
  Error error = identity.error();
  if (error.sys_errno != ENOENT) {
    return std::optional<boundary::File>();  // its file system does not allow the look
  }
  error.sys_errno = caller.Alive() ? EBADF : ESRCH;
  return error;
}

// Takes the caller's file under the number. ENOTTY: it is no GPU's. EMFILE: this process has no
// room. Otherwise as LookAt().
Result<Server::TakenFile> Server::Take(const os::Caller& caller, int number) {
  const Error foreign{Code::kInvalid, ENOTTY, "not a file of a GPU", {}};
  os::UsualNumbers& usual = caller.process->usual;
  const bool trusted = usual.Contains(number) && !wary_.load(std::memory_order_relaxed);
  if (!trusted) {
    CGPU_ASSIGN_OR_RETURN(const auto known, LookAt(caller, number));
    if (!known) {
      return foreign;
    }
  }
  CGPU_ASSIGN_OR_RETURN(auto file, caller.TakeFd(number));
  const auto identity = os::Identify(file.get());
  const auto known = identity.ok() ? Recognise(*identity) : std::nullopt;
  if (!known) {
    if (trusted && !wary_.exchange(true)) {
      // Kept open as long as this process lives, in whatever version. It is one file, and while its
      // close hung nothing could be upgraded.
      (void)fcntl(file.release(), F_SETFD, 0);
    }
    Discard(std::move(file));
    return foreign;
  }
  if (os::IsSpare(file.get())) {
    return Error{Code::kExhausted, EMFILE, "no room for another descriptor", {}};
  }
  usual.Add(number);
  return TakenFile{std::move(file), *known};
}

}  // namespace cgpu::shim
