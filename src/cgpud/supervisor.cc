#include "cgpud/supervisor.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>
#include <string_view>

#include "os/cgroups.h"
#include "os/ownership.h"
#include "os/start_time.h"

namespace cgpu {
namespace {

constexpr std::uint64_t kMaxPid = 1U << 22;  // the kernel's PID_MAX_LIMIT
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();  // any other number
constexpr std::size_t kMaxRoots = 4096;  // live ones of one container

}  // namespace

void Supervisor::Refresh() {
  const auto live = registry_.Live();
  if (!live.ok()) {
    return;
  }
  for (const Reservation& reservation : *live) {
    if (watched_.contains(reservation.id)) {
      continue;
    }
    if (auto shim = registry_.Watch(reservation.id); shim.ok()) {
      Watched& watched = watched_[reservation.id];
      watched.shim = std::move(*shim);
      watched.name = reservation.name;
      watched.engine_id = reservation.engine_id;
      watched.user = reservation.user;
      watched.supervised = registry_.HasAgent(reservation.id);
    }
  }
}

std::vector<int> Supervisor::descriptors() const {
  std::vector<int> all;
  all.reserve(watched_.size());
  for (const auto& [id, watched] : watched_) {
    all.push_back(watched.shim.get());
  }
  return all;
}

Supervisor::News Supervisor::Look(const std::vector<int>& readable) {
  News news;
  for (auto at = watched_.begin(); at != watched_.end();) {
    auto& [id, watched] = *at;
    if (std::ranges::find(readable, watched.shim.get()) == readable.end()) {
      ++at;
      continue;
    }
    const bool over = !Read(watched);
    TakeLines(id, watched, news);
    if (!over) {
      ++at;
      continue;
    }
    const bool kill = !watched.ended && watched.supervised && !watched.roots.empty();
    if (kill) {
      Kill(watched);
    }
    news.gone.push_back({id, watched.name, watched.engine_id, watched.user, watched.supervised,
                         kill, watched.ended});
    at = watched_.erase(at);
  }
  return news;
}

bool Supervisor::Lives(const Root& root) {
  return syscall(SYS_pidfd_send_signal, root.process.get(), 0, nullptr, 0) == 0;
}

// Reads all there is. Returns false at the end of the stream.
bool Supervisor::Read(Watched& watched) {
  char buffer[4096];
  ssize_t n = 0;
  while ((n = recv(watched.shim.get(), buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
    watched.text.append(buffer, static_cast<std::size_t>(n));
    if (watched.text.size() > kMaxMessage) {
      return true;  // the rest next time
    }
  }
  return n < 0 && (errno == EAGAIN || errno == EINTR);
}

void Supervisor::TakeLines(const std::string& id, Watched& watched, News& news) const {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = watched.text.find('\n', begin)) != std::string::npos;) {
    const auto lines = SplitLines(std::string_view(watched.text).substr(begin, end - begin));
    begin = end + 1;
    if (!lines.ok() || lines->size() != 1) {
      continue;
    }
    const Words& line = lines->front();
    std::uint64_t number = 0;
    std::uint64_t started = 0;
    if (line == Words{"ended"}) {
      watched.ended = true;
    } else if (line.size() == 2 && line[0] == "pid" && ToNumber(line[1], 10, kMaxPid, number)) {
      if (watched.supervised) {
        AddRoot(watched, static_cast<unsigned>(number));
      }
    } else if (line.size() == 3 && line[0] == "start" && ToNumber(line[1], 10, kMaxPid, number) &&
               ToNumber(line[2], 10, kMost, started)) {
      CheckRoot(watched, static_cast<unsigned>(number), started);
    } else {
      TakeCount(id, watched, line, news);
    }
  }
  watched.text.erase(0, begin);
  if (watched.text.size() > kMaxLine) {
    watched.text.clear();  // no shim writes such lines
  }
}

void Supervisor::TakeCount(const std::string& id, const Watched& watched, const Words& line,
                           News& news) {
  std::uint64_t count = 0;
  if (line.size() < 3 || !ToNumber(line[1], 10, kMost, count)) {
    return;
  }
  const Refusal refusal{id,           watched.engine_id, line[2],           count,
                        watched.name, watched.user,      watched.supervised};
  Denial denial{refusal};
  if (line[0] == "refused" && line.size() == 3) {
    news.refused.push_back(refusal);
  } else if (line[0] == "denied" && line.size() == 5 && ToUnsigned(line[3], denial.gpu) &&
             ToNumber(line[4], 10, kMost, denial.limit_bytes)) {
    news.denied.push_back(denial);
  }
}

// Adds a process of the container. The shim holds on to the process and says its number while it
// lives. Before this program opens the number, the process may end and the number go to another,
// which CheckRoot() removes again.
void Supervisor::AddRoot(Watched& watched, unsigned pid) const {
  const auto known = std::ranges::find(watched.roots, pid, &Root::pid);
  if (known != watched.roots.end() && Lives(*known)) {
    return;
  }
  if (known != watched.roots.end()) {
    watched.roots.erase(known);
  } else if (watched.roots.size() >= kMaxRoots) {
    std::erase_if(watched.roots, [&](const Root& root) { return !Lives(root); });
    if (watched.roots.size() >= kMaxRoots) {
      return;
    }
  }
  Root root;
  root.pid = pid;
  root.process.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  auto cgroups = os::CgroupsOf(pid);
  if (!root.process.valid() || !cgroups.ok() || !MayKill(watched, static_cast<pid_t>(pid)) ||
      !Lives(root)) {
    return;
  }
  if (os::IsCalledAfter(*cgroups, watched.engine_id)) {
    root.cgroups = std::move(*cgroups);  // else it shares its cgroup with others
  }
  watched.roots.push_back(std::move(root));
}

// Removes the process of that number if it began at another time than the container's.
void Supervisor::CheckRoot(Watched& watched, unsigned pid, std::uint64_t started) const {
  std::erase_if(watched.roots, [&](const Root& root) {
    return root.pid == pid && os::StartTime(proc_.get(), static_cast<pid_t>(pid)) != started &&
           Lives(root);
  });
}

// Returns whether the process may be killed. A user's word, and the names that the user gives to
// containers, count for the user's own processes only.
bool Supervisor::MayKill(const Watched& watched, pid_t pid) const {
  return watched.user == 0 || os::IsInNamespaceOf(proc_.get(), pid, watched.user);
}

void Supervisor::Kill(const Watched& watched) const {
  for (const Root& root : watched.roots) {
    (void)syscall(SYS_pidfd_send_signal, root.process.get(), SIGKILL, nullptr, 0);
    if (!root.cgroups.empty()) {
      (void)os::KillAllIn(root.cgroups, [&](pid_t pid) { return MayKill(watched, pid); });
    }
  }
}

}  // namespace cgpu
