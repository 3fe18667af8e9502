#include "os/cgroups.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "base/fd.h"
#include "base/file.h"
#include "os/mounts.h"

namespace cgpu::os {
namespace {

// Most looks at the processes to kill. A process can start others before it dies; a further look
// finds them, and the last look finds none. Processes that fork faster than this machine can look
// are given up.
constexpr int kLooks = 100;

bool HasExited(int process) {
  pollfd exited{process, POLLIN, 0};
  return poll(&exited, 1, 0) > 0;
}

int KillOnce(const std::string& cgroups, const std::function<bool(pid_t)>& may) {
  int killed = 0;
  const DirPtr proc = OpenDir(AT_FDCWD, "/proc");
  while (const dirent* entry =
             proc ? readdir(proc.get()) : nullptr) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string_view name = entry->d_name;
    unsigned pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr !=
            name.data() + name.size() ||
        pid == static_cast<unsigned>(getpid())) {
      continue;
    }
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // Read after the process was pinned, so it is this process's.
    const auto own = CgroupsOf(pid);
    if (process.valid() && own.ok() && IsIn(*own, cgroups) && may(static_cast<pid_t>(pid)) &&
        !HasExited(process.get()) &&
        syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0) {
      ++killed;
    }
  }
  return killed;
}

}  // namespace

bool IsIn(std::string_view cgroups, std::string_view others) {
  while (!others.empty()) {
    const std::size_t end = std::min(others.find('\n'), others.size());
    const std::string_view line = others.substr(0, end);
    others.remove_prefix(std::min(end + 1, others.size()));
    bool found = line.empty();
    for (std::string_view rest = cgroups; !found && !rest.empty();) {
      const std::size_t stop = std::min(rest.find('\n'), rest.size());
      const std::string_view own = rest.substr(0, stop);
      rest.remove_prefix(std::min(stop + 1, rest.size()));
      found =
          own == line || (own.starts_with(line) && (line.back() == '/' || own[line.size()] == '/'));
    }
    if (!found) {
      return false;
    }
  }
  return true;
}

Result<std::string> CgroupsOf(unsigned pid) {
  return ReadFile("/proc/" + std::to_string(pid) + "/cgroup");
}

bool IsCalledAfter(std::string_view cgroups, std::string_view id) {
  const std::string scope = "-" + std::string(id) + ".scope";
  while (!id.empty() && !cgroups.empty()) {
    const std::size_t end = std::min(cgroups.find_first_of("/\n"), cgroups.size());
    const std::string_view part = cgroups.substr(0, end);
    cgroups.remove_prefix(std::min(end + 1, cgroups.size()));
    if (part == id || part.ends_with(scope)) {
      return true;
    }
  }
  return false;
}

int KillAllIn(const std::string& cgroups, const std::function<bool(pid_t)>& may) {
  int all = 0;
  for (int look = 0; look < kLooks; ++look) {
    const int killed = KillOnce(cgroups, may);
    if (killed == 0) {
      break;
    }
    all += killed;
  }
  return all;
}

}  // namespace cgpu::os
