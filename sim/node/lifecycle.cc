#include "sim/node/lifecycle.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/child.h"
#include "base/file.h"
#include "sim/node/control_client.h"
#include "sim/node/wire.h"

namespace cgpu::sim {
namespace {

constexpr int kStopTimeoutMs = 10000;

// In the forked child: becomes the server. Only async-signal-safe calls.
[[noreturn]] void BecomeServer(const char* path, char* const* argv, int lock, int ready, int log) {
  setsid();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) {
    _exit(126);
  }
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // The two numbers cgpu-sim expects; both sources are above them.
  dup2(lock, 3);
  dup2(ready, 4);
  if (chdir("/") != 0) {
    _exit(126);
  }
  execv(path, argv);
  _exit(127);
}

Result<UniqueFd> Above(UniqueFd fd, int lowest) {
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, lowest));
  if (!moved.valid()) {
    return ErrnoError(Code::kInternal, errno, "duplicating a descriptor");
  }
  return moved;
}

// Checks that a node may mount its file system and read the memory of its callers. Root of a
// container may lack the rights: without CAP_SYS_PTRACE, the seccomp profile of Docker 20.10
// refuses process_vm_readv(2) (moby, profiles/seccomp/default.json).
Result<> CheckRights() {
  if (geteuid() != 0) {
    return Error{Code::kPermission, EPERM, "only root can start a simulated node",
                 "it mounts a file system for every user; run this with sudo"};
  }
  const char* lacks = access("/dev/fuse", R_OK | W_OK) != 0                  ? "/dev/fuse"
                      : prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 1  ? "CAP_SYS_ADMIN"
                      : prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE, 0, 0, 0) != 1 ? "CAP_SYS_PTRACE"
                                                                             : nullptr;
  if (lacks == nullptr) {
    return {};
  }
  return Error{Code::kPermission, EPERM,
               std::string("a simulated node needs ") + lacks + ", which is not here",
               "a container gets it by docker run --device /dev/fuse --cap-add SYS_ADMIN "
               "--cap-add SYS_PTRACE, or by --privileged; a host loads the module fuse"};
}

Result<> AwaitReady(int ready, const NodeDir& dir) {
  const Result<std::string> line = ReadLine(ready);
  if (!line.ok()) {
    return Error{Code::kInternal, 0, "the simulated node's server ended before it was ready",
                 "see " + dir.Log()};
  }
  const Result<std::string> answer = ResultOf(*line);
  return answer.ok() ? Result<>() : answer.error();
}

Result<> Launch(const NodeDir& dir, const StartOptions& options, UniqueFd lock) {
  constexpr int kLowest = 10;
  CGPU_ASSIGN_OR_RETURN(auto ready, MakePipe());
  Result<UniqueFd> ready_write = Above(std::move(ready.to), kLowest);
  Result<UniqueFd> lock_high = Above(std::move(lock), kLowest);
  Result<UniqueFd> log = OpenFile(dir.Log(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  for (const auto* fd : {&ready_write, &lock_high, &log}) {
    if (!fd->ok()) {
      return fd->error();
    }
  }
  std::vector<std::string> words = {options.server,
                                    "--name",
                                    dir.Name(),
                                    "--gpus",
                                    options.gpus,
                                    "--driver",
                                    options.driver,
                                    "--context-switch-us",
                                    std::to_string(options.gpu.context_switch_us),
                                    "--preempt-us",
                                    std::to_string(options.gpu.preempt_us),
                                    "--copy-gbps",
                                    std::to_string(options.gpu.copy_gbps),
                                    "--hang-rules",
                                    options.hang_rules,
                                    "--slices-take-effect",
                                    options.slices_take_effect,
                                    "--channels-go-off",
                                    options.channels_go_off};
  if (options.no_caps) {
    words.emplace_back("--no-caps");
  }
  const std::vector<char*> argv = PointersTo(words);
  const pid_t pid = fork();
  if (pid < 0) {
    return ErrnoError(Code::kUnavailable, errno, "starting " + options.server);
  }
  if (pid == 0) {
    BecomeServer(options.server.c_str(), argv.data(), lock_high->get(), ready_write->get(),
                 log->get());
  }
  ready_write->reset();
  lock_high->reset();
  const Result<> started = AwaitReady(ready.from.get(), dir);
  if (!started.ok()) {
    (void)waitpid(pid, nullptr, 0);
  }
  return started;
}

// Waits for the process to end; kills it when it takes too long.
void AwaitEnd(pid_t pid) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) {
    return;
  }
  pollfd end{process.get(), POLLIN, 0};
  if (poll(&end, 1, kStopTimeoutMs) == 0) {
    (void)syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    (void)poll(&end, 1, kStopTimeoutMs);
  }
}

}  // namespace

Result<> StartNode(const NodeDir& dir, const StartOptions& options) {
  CGPU_TRY(CheckRights());
  if (access(options.server.c_str(), X_OK) != 0) {
    return Error{Code::kNotFound, errno, "the program " + options.server + " cannot be run",
                 "build it, or set CGPU_LIBEXEC to the folder that holds cgpu-sim"};
  }
  Result<UniqueFd> lock = dir.MakeAndLock();
  if (!lock.ok()) {
    return lock.error();
  }
  CGPU_TRY(dir.Remove());
  // The folder is made anew, and with it the lock.
  lock = dir.MakeAndLock();
  if (!lock.ok()) {
    return lock.error();
  }
  CGPU_TRY(MakeDirectories(dir.Mount(), 0755));
  const Result<> launched = Launch(dir, options, std::move(lock).value());
  if (!launched.ok()) {
    if (const Result<UniqueFd> again = dir.Lock(); again.ok()) {
      (void)dir.Remove();
    }
  }
  return launched;
}

Result<> StopNode(const NodeDir& dir) {
  Result<ControlClient> client = ControlClient::Connect(dir);
  if (client.ok()) {
    (void)client->Ask(R"({"command":"stop"})");
    AwaitEnd(client->ServerPid());
  } else if (client.error().code == Code::kNotFound || client.error().code == Code::kPermission) {
    return client.error();
  }
  // The server takes its folder away itself; what is left is a dead one's.
  const Result<UniqueFd> lock = dir.Lock();
  if (!lock.ok()) {
    return lock.error().code == Code::kNotFound ? Result<>() : Result<>(lock.error());
  }
  return dir.Remove();
}

}  // namespace cgpu::sim
