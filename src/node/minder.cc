#include "node/minder.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "kernel/cgroups.h"
#include "registry/text.h"

namespace cgpu {
namespace {

constexpr std::uint64_t kMaxPid = 1U << 22;  // the kernel's PID_MAX_LIMIT

bool Contains(const std::vector<int>& all, int fd) {
  return std::find(all.begin(), all.end(), fd) != all.end();
}

}  // namespace

void Minder::Refresh() {
  const auto lock = registry_.Lock();
  if (!lock.ok()) {
    return;
  }
  const auto live = registry_.List(*lock);
  if (!live.ok()) {
    return;
  }
  for (const Reservation& reservation : *live) {
    if (reservation.engine_id.empty() || watched_.contains(reservation.id)) {
      continue;
    }
    if (auto shim = registry_.Watch(reservation.id); shim.ok()) {
      Watched& watched = watched_[reservation.id];
      watched.shim = std::move(*shim);
      watched.engine_id = reservation.engine_id;
    }
  }
}

std::vector<int> Minder::descriptors() const {
  std::vector<int> all;
  for (const auto& [id, watched] : watched_) {
    all.push_back(watched.shim.get());
    for (const Root& root : watched.roots) {
      if (!root.exited) {
        all.push_back(root.process.get());
      }
    }
  }
  return all;
}

std::map<std::string, std::string> Minder::containers() const {
  std::map<std::string, std::string> all;
  for (const auto& [id, watched] : watched_) {
    all.emplace(id, watched.engine_id);
  }
  return all;
}

Minder::News Minder::Look(const std::vector<int>& readable) {
  News news;
  for (auto at = watched_.begin(); at != watched_.end();) {
    Watched& watched = at->second;
    if (TakeExits(watched, readable)) {
      news.exited.push_back(at->first);
    }
    if (!Contains(readable, watched.shim.get()) || ReadLines(watched)) {
      ++at;
      continue;
    }
    if (!watched.ended) {
      Kill(watched);
      news.killed.push_back(at->first);
    }
    at = watched_.erase(at);
  }
  return news;
}

// Whether there were any.
bool Minder::TakeExits(Watched& watched, const std::vector<int>& readable) {
  bool any = false;
  for (Root& root : watched.roots) {
    const bool now = !root.exited && Contains(readable, root.process.get());
    root.exited = root.exited || now;
    any = any || now;
  }
  return any;
}

// "pid N" for each process that the container has a listener of, "ended" at last. False at the end
// of the stream.
bool Minder::ReadLines(Watched& watched) {
  char buffer[512];
  const ssize_t n = recv(watched.shim.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (n <= 0) {
    return n < 0 && (errno == EAGAIN || errno == EINTR);
  }
  watched.text.append(buffer, static_cast<std::size_t>(n));
  for (std::size_t end = 0; (end = watched.text.find('\n')) != std::string::npos;) {
    const auto lines = SplitLines(watched.text.substr(0, end));
    watched.text.erase(0, end + 1);
    if (!lines.ok() || lines->size() != 1) {
      continue;
    }
    const Words& line = lines->front();
    std::uint64_t pid = 0;
    if (line == Words{"ended"}) {
      watched.ended = true;
    } else if (line.size() == 2 && line[0] == "pid" && ToNumber(line[1], 10, kMaxPid, pid)) {
      AddRoot(watched, static_cast<unsigned>(pid));
    }
  }
  return true;
}

// The shim, which holds on to the process, says its number while it lives. In the moment until it
// is opened here it may end and the number be given away: to a process in other cgroups.
void Minder::AddRoot(Watched& watched, unsigned pid) {
  std::erase_if(watched.roots, [](const Root& root) {
    return syscall(SYS_pidfd_send_signal, root.process.get(), 0, nullptr, 0) != 0;
  });
  Root root;
  root.process.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  auto cgroups = kernel::CgroupsOf(pid);
  if (!root.process.valid() || !cgroups.ok()) {
    return;
  }
  if (cgroups->find(watched.engine_id) != std::string::npos) {
    root.cgroups = std::move(*cgroups);  // else it shares its cgroup with others
  }
  watched.roots.push_back(std::move(root));
}

void Minder::Kill(const Watched& watched) {
  for (const Root& root : watched.roots) {
    (void)syscall(SYS_pidfd_send_signal, root.process.get(), SIGKILL, nullptr, 0);
    if (!root.cgroups.empty()) {
      (void)kernel::KillAllIn(root.cgroups);
    }
  }
}

}  // namespace cgpu
