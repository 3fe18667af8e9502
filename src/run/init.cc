#include "run/init.h"

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/child.h"
#include "base/fd.h"
#include "base/result.h"
#include "os/messages.h"
#include "os/namespaces.h"
#include "os/privileges.h"
#include "protocol/text.h"
#include "run/command.h"
#include "run/descriptors.h"

namespace cgpu {
namespace {

constexpr int kOwnFailure = 125;

[[noreturn]] void Fail(int control, const Error& error) {
  (void)SendMessage(control, JoinError(error));
  _exit(kOwnFailure);
}

Result<> MountProc() {
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    Error error = ErrnoError(Code::kPermission, errno, "cannot mount the container's /proc");
    error.hint = "inside another container parts of /proc are covered: run cgpu on the host";
    return error;
  }
  return {};
}

Result<> MakeWorld(const InitOptions& options) {
  CGPU_TRY(SetUpNamespaces(options.uid, options.gid));
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NAME, "cgpu-init");
  CGPU_TRY(MountProc());
  CGPU_TRY(MountGpuTree(options.tree));
  // The working directory may have been covered; the path leads to the cover.
  if (chdir(options.working_directory.c_str()) != 0) {
    return ErrnoError(Code::kUnavailable, errno,
                      "cannot change to the directory " + options.working_directory);
  }
  return {};
}

// Shuts this process in: from here on it and its children run under the filter, and have only the
// capabilities that a container may have.
Result<> ShutIn(const InitOptions& options, int control) {
  if (options.uid != 0) {
    CGPU_TRY(SetNoNewPrivileges());
  }
  CGPU_ASSIGN_OR_RETURN(auto listener, sandbox::InstallGpuFilter(options.filter));
  CGPU_TRY(SendMessage(control, "listener", listener.get()));
  listener.reset();
  return DropCapabilities(options.uid == 0 ? ~CapabilitiesUnderRun() : kAllCapabilities);
}

// Becomes the command once `go` has a byte. The end of `go` means that nobody wants the command any
// more.
[[noreturn]] void RunCommand(const InitOptions& options, UniqueFd go) {
  char byte = 0;
  if (read(go.get(), &byte, 1) != 1) {
    _exit(kOwnFailure);
  }
  go.reset();
  RestoreSignals(options.signals);
  BecomeCommand(options.command);
}

struct Command {
  pid_t pid = 0;
  UniqueFd go;
};

Result<Command> ForkCommand(const InitOptions& options, int control) {
  CGPU_ASSIGN_OR_RETURN(auto pipe, MakePipe());
  Command command{0, std::move(pipe.to)};
  CGPU_ASSIGN_OR_RETURN(command.pid, Fork());
  if (command.pid == 0) {
    command.go.reset();
    close(control);
    RunCommand(options, std::move(pipe.from));
  }
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, command.pid, 0)));
  CGPU_TRY(SendMessage(control, "pid", pidfd.get()));
  return command;
}

int StatusOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Reaps every child that ends, until the command does. Signals sent to this process are the
// command's.
[[noreturn]] void ReapUntilDone(pid_t command) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (true) {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == command) {
        _exit(StatusOf(status));  // everything else in the pid namespace ends with it
      }
    }
    siginfo_t info{};
    const int signal = sigwaitinfo(&all, &info);
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) {
      kill(command, signal);
    }
  }
}

}  // namespace

void RunInit(const InitOptions& options, int control) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<int> keep = options.inherited;
  keep.push_back(control);
  CloseAllBut(std::move(keep));
  if (const auto made = MakeWorld(options); !made.ok()) {
    Fail(control, made.error());
  }
  if (const auto shut = ShutIn(options, control); !shut.ok()) {
    Fail(control, shut.error());
  }
  auto command = ForkCommand(options, control);
  if (!command.ok()) {
    Fail(control, command.error());
  }
  // A launcher that died before the death signal was set is noticed here.
  const auto go = ReceiveMessage(control, -1);
  if (!go.ok() || go.value().text != "go" || write(command->go.get(), "", 1) != 1) {
    _exit(kOwnFailure);
  }
  const pid_t pid = command->pid;
  CloseAllBut({});
  ReapUntilDone(pid);
}

}  // namespace cgpu
