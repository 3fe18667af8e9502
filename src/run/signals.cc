#include "run/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cgpu {
namespace {

constexpr int kNeverBlocked[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL, SIGTRAP,
                                 SIGABRT, SIGSYS, SIGTTIN, SIGTTOU};

sigset_t BlockedSet() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : kNeverBlocked) {
    sigdelset(&set, signal);
  }
  return set;
}

// Does what an unhandled SIGTSTP does, which is nothing in an orphaned process group.
void Stop() {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);  // stops here
  pthread_sigmask(SIG_BLOCK, &only, nullptr);
}

}  // namespace

Result<SignalState> BlockSignals() {
  SignalState state{};
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  const sigset_t set = BlockedSet();
  if (sigaction(SIGCHLD, &standard, &state.child) != 0) {
    return ErrnoError(Code::kInternal, errno, "cannot block signals");
  }
  pthread_sigmask(SIG_BLOCK, &set, &state.mask);  // fails only where its arguments are wrong
  return state;
}

void RestoreSignals(const SignalState& state) {
  sigaction(SIGCHLD, &state.child, nullptr);
  pthread_sigmask(SIG_SETMASK, &state.mask, nullptr);
}

Result<UniqueFd> OpenSignals() {
  const sigset_t set = BlockedSet();
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return ErrnoError(Code::kInternal, errno, "cannot read signals");
  }
  return fd;
}

void PassSignalOn(int signals, int target) {
  signalfd_siginfo info{};
  if (read(signals, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
    return;
  }
  const auto signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGCHLD) {
    return;
  }
  if (info.ssi_code != SI_KERNEL) {
    syscall(SYS_pidfd_send_signal, target, signal, nullptr, 0);
  }
  if (signal == SIGTSTP) {
    Stop();
  }
}

}  // namespace cgpu
