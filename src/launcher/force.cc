#include "launcher/force.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace cgpu {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kItsOwn{3};  // for its shim to see that it is over
constexpr std::chrono::seconds kMost{10};
constexpr int kBetweenMs = 20;

std::optional<int> NumberOf(const fs::path& path) {
  const std::string name = path.filename();
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// As /proc shows a descriptor of the socket that listens at `path`; empty: nobody listens.
std::string ListenerAt(const std::string& path) {
  std::ifstream file("/proc/net/unix");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> name;
    constexpr std::string_view kListens = "00010000";
    if (name == path && flags == kListens) {
      return "socket:[" + inode + "]";
    }
  }
  return {};
}

bool HasFile(const fs::path& process, const std::string& file) {
  std::error_code error;
  const fs::directory_iterator all(process / "fd", error);
  return !error && std::any_of(begin(all), end(all), [&](const fs::directory_entry& entry) {
    std::error_code gone;
    return fs::read_symlink(entry.path(), gone) == file;
  });
}

// Whoever holds the listening end: the shim alone does.
Result<pid_t> ShimAt(const std::string& socket) {
  const std::string file = ListenerAt(socket);
  if (file.empty()) {
    return Error{Code::kNotFound, 0, "the container has ended", {}};
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const auto pid = NumberOf(entry.path());
    if (pid && HasFile(entry.path(), file)) {
      return *pid;
    }
  }
  return Error{Code::kPermission, 0, "its shim is not to be seen", "do it as root"};
}

bool IsProcess(const fs::path& process, int number) {
  std::ifstream info(process / "fdinfo" / std::to_string(number));
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("Pid:")) {
      return true;
    }
  }
  return false;
}

// What the shim knows of the container's processes are pidfds: these mean the processes that it
// means, whatever their numbers are now.
void KillKnown(const UniqueFd& shim, pid_t pid) {
  const fs::path process = "/proc/" + std::to_string(pid);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(process / "fd", error)) {
    const auto number = NumberOf(entry.path());
    if (!number || !IsProcess(process, *number)) {
      continue;
    }
    const UniqueFd known(static_cast<int>(syscall(SYS_pidfd_getfd, shim.get(), *number, 0)));
    (void)syscall(SYS_pidfd_send_signal, known.get(), SIGKILL, nullptr, 0);
  }
}

bool HasEnded(const UniqueFd& shim, std::chrono::steady_clock::time_point until) {
  do {
    pollfd exit{shim.get(), POLLIN, 0};
    if (poll(&exit, 1, kBetweenMs) > 0) {
      return true;
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

Result<> EndByForce(const Registry& registry, const std::string& id) {
  const std::string socket = registry.folder() + "/" + id + ".sock";
  const auto pid = ShimAt(socket);
  if (!pid.ok()) {
    return pid.error();
  }
  const UniqueFd shim(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  if (!shim.valid() || !HasFile("/proc/" + std::to_string(*pid), ListenerAt(socket))) {
    return Error{Code::kNotFound, 0, "the container has ended", {}};
  }
  const auto began = std::chrono::steady_clock::now();
  KillKnown(shim, *pid);
  if (HasEnded(shim, began + kItsOwn)) {
    return {};
  }
  KillKnown(shim, *pid);  // those that have come meanwhile
  (void)syscall(SYS_pidfd_send_signal, shim.get(), SIGKILL, nullptr, 0);
  if (HasEnded(shim, began + kMost)) {
    return {};
  }
  return Error{Code::kUnavailable, 0,
               "its processes were killed, and its shim is there still, in a call that cannot be "
               "interrupted",
               "see what it waits for: /proc/" + std::to_string(*pid) + "/task/*/stack"};
}

}  // namespace cgpu
