#include "host/force.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string_view>

#include "base/file.h"
#include "os/open_files.h"
#include "os/process.h"
#include "os/sockets.h"

namespace cgpu {
namespace {

constexpr std::chrono::seconds kItsOwn{3};  // time for its shim to see that the container has ended
constexpr std::chrono::seconds kMost{10};
constexpr int kBetweenMs = 20;
constexpr std::size_t kMaxText = std::size_t{1} << 16;  // most bytes of a process's file in /proc

Error HasEndedError() {
  return Error{Code::kNotFound, 0, "the container has ended", {}};
}

// A shim's process, and a way to look into it.
struct Shim {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd proc;  // an open /proc
};

std::string PathIn(pid_t pid, std::string_view file) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(file);
}

bool RunsUnder(pid_t pid, unsigned uid) {
  const auto status = ReadFile(PathIn(pid, "status"), kMaxText);
  const std::string id = "\t" + std::to_string(uid);
  return status.ok() && status->find("\nUid:" + id + id + id + id + "\n") != std::string::npos;
}

bool Holds(const Shim& shim, const os::FileIdentity& file) {
  const auto numbers = os::Descriptors(shim.proc.get(), shim.pid);
  return std::ranges::any_of(numbers, [&](int number) {
    const auto one = os::IdentifyOf(shim.proc.get(), shim.pid, number);
    return one.ok() && one->dev == file.dev && one->ino == file.ino;
  });
}

// Opens the process by its number before it asks which process that is.
Result<Shim> ShimAt(const std::string& socket, unsigned uid) {
  CGPU_ASSIGN_OR_RETURN(const auto file, os::ListenerAt(socket));
  Shim shim;
  shim.proc.reset(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const pid_t pid : os::Processes(shim.proc.get())) {
    shim.pid = pid;
    if (!RunsUnder(pid, uid)) {
      continue;
    }
    shim.pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (shim.pidfd.valid() && RunsUnder(pid, uid) && Holds(shim, file)) {
      return shim;
    }
  }
  return Error{Code::kPermission, 0, "this user may not look into the container's shim",
               "run it with sudo"};
}

bool IsProcess(pid_t pid, int number) {
  const auto info = ReadFile(PathIn(pid, "fdinfo/" + std::to_string(number)), kMaxText);
  return info.ok() && info->find("\nPid:") != std::string::npos;
}

// Kills the processes by the shim's own pidfds: they mean the processes that the shim means,
// whatever their numbers are now.
void KillKnown(const Shim& shim) {
  for (const int number : os::Descriptors(shim.proc.get(), shim.pid)) {
    if (!IsProcess(shim.pid, number)) {
      continue;
    }
    const UniqueFd known(static_cast<int>(syscall(SYS_pidfd_getfd, shim.pidfd.get(), number, 0)));
    (void)syscall(SYS_pidfd_send_signal, known.get(), SIGKILL, nullptr, 0);
  }
}

bool HasEnded(const Shim& shim, std::chrono::steady_clock::time_point until) {
  do {
    pollfd exit{shim.pidfd.get(), POLLIN, 0};
    if (poll(&exit, 1, kBetweenMs) > 0) {
      return true;
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

// Returns whether no process serves the container any more.
bool IsOver(const Registry& registry, const std::string& id) {
  const auto connection = registry.ConnectTo(id);
  return !connection.ok() && connection.error().code == Code::kNotFound;
}

Result<Shim> ShimOf(const Registry& registry, const std::string& id) {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  const auto found = std::ranges::find(live, id, &Reservation::id);
  if (found == live.end()) {
    return HasEndedError();
  }
  auto shim = ShimAt(registry.folder() + "/" + id + ".sock", found->shim_uid);
  if (shim.ok() || !IsOver(registry, id)) {
    const bool elsewhere = !shim.ok() && shim.error().code == Code::kNotFound;
    return elsewhere ? Error{Code::kUnavailable, 0,
                             "this network namespace does not show the container's shim",
                             "run it in the network namespace of the host"}
                     : std::move(shim);
  }
  return HasEndedError();
}

}  // namespace

Result<> EndByForce(const Registry& registry, const std::string& id) {
  CGPU_ASSIGN_OR_RETURN(const auto shim, ShimOf(registry, id));
  const auto began = std::chrono::steady_clock::now();
  KillKnown(shim);
  if (!HasEnded(shim, began + kItsOwn)) {
    KillKnown(shim);  // processes that have come meanwhile
    (void)syscall(SYS_pidfd_send_signal, shim.pidfd.get(), SIGKILL, nullptr, 0);
    if (!HasEnded(shim, began + kMost)) {
      return Error{
          Code::kUnavailable, 0,
          "the container's processes are killed, but its shim waits in a call that cannot be "
          "interrupted",
          "see what it waits for, and try again later: " + PathIn(shim.pid, "task/*/stack")};
    }
  }
  if (!IsOver(registry, id)) {
    return Error{Code::kUnavailable, 0,
                 "the container's shim has ended, but another process still listens at " +
                     registry.folder() + "/" + id + ".sock",
                 "end that process: `ss -xlp` shows it"};
  }
  return {};
}

}  // namespace cgpu
