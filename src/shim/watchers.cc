#include "shim/watchers.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "protocol/text.h"

namespace cgpu::shim {
namespace {

// Returns 0 or the errno. Lines this short go whole or not at all.
int SendLine(const UniqueFd& connection, const std::string& line, int flags = MSG_DONTWAIT) {
  return send(connection.get(), line.data(), line.size(), MSG_NOSIGNAL | flags) < 0 ? errno : 0;
}

}  // namespace

bool Watchers::Add(UniqueFd& connection) {
  std::erase_if(all_, [](const Watcher& watcher) {
    pollfd query{watcher.connection.get(), 0,
                 0};  // POLLHUP: closed by the watcher; a watcher that only stops writing is usual
    return poll(&query, 1, 0) > 0;
  });
  if (all_.size() >= kMost) {
    return false;
  }
  all_.push_back({std::move(connection), {}, {}, {}});
  return true;
}

bool Watchers::IsGone(Watcher& watcher, const std::vector<WorkerPool::Root>& roots) {
  // Forgets ended processes: if their numbers are given out again, the watcher hears of them again.
  std::erase_if(watcher.told, [&](pid_t pid) {
    return std::ranges::find(roots, pid, &WorkerPool::Root::pid) == roots.end();
  });
  for (const WorkerPool::Root& root : roots) {
    if (watcher.told.contains(root.pid)) {
      continue;
    }
    const std::string pid = std::to_string(root.pid);
    std::string lines = JoinLine({"pid", pid});
    if (root.started != 0) {
      lines += JoinLine({"start", pid, std::to_string(root.started)});
    }
    if (const int error = SendLine(watcher.connection, lines)) {
      return error != EAGAIN;
    }
    watcher.told.insert(root.pid);
  }
  return false;
}

void Watchers::Tell(const std::vector<WorkerPool::Root>& roots) {
  std::erase_if(all_, [&](Watcher& watcher) { return IsGone(watcher, roots); });
}

std::vector<WatcherState> Watchers::Save() const {
  std::vector<WatcherState> state;
  state.reserve(all_.size());
  for (const Watcher& watcher : all_) {
    state.push_back({watcher.connection.get(), watcher.told});
  }
  return state;
}

void Watchers::Adopt(const std::vector<WatcherState>& state) {
  all_.reserve(all_.size() + state.size());
  for (const WatcherState& watcher : state) {
    all_.push_back({UniqueFd(watcher.connection), watcher.told, {}, {}});
  }
}

// Stops at the first line that there is no room for.
void Watchers::TellRefused(Watcher& watcher, const Refused& refused,
                           const std::vector<GpuStatus>& gpus, int flags) {
  for (const auto& [what, count] : refused) {
    std::uint64_t& told = watcher.told_refused[what];
    if (count <= told) {
      continue;
    }
    if (SendLine(watcher.connection, JoinLine({"refused", std::to_string(count), what}), flags) !=
        0) {
      return;
    }
    told = count;
  }
  for (const GpuStatus& gpu : gpus) {
    std::uint64_t& told = watcher.told_denied[gpu.uuid];
    if (gpu.denied <= told) {
      continue;
    }
    if (SendLine(watcher.connection,
                 JoinLine({"denied", std::to_string(gpu.denied), gpu.uuid,
                           std::to_string(gpu.host_index), std::to_string(gpu.limit_bytes)}),
                 flags) != 0) {
      return;
    }
    told = gpu.denied;
  }
}

void Watchers::TellRefused(const Refused& refused, const std::vector<GpuStatus>& gpus) {
  for (Watcher& watcher : all_) {
    TellRefused(watcher, refused, gpus, MSG_DONTWAIT);
  }
}

// Waits, because the watchers must hear this more than it must end at once: up to the timeout of
// the connection (SO_SNDTIMEO).
void Watchers::TellEnd(const Refused& refused, const std::vector<GpuStatus>& gpus) {
  for (Watcher& watcher : all_) {
    if (SendLine(watcher.connection, "ended\n", 0) == 0) {
      TellRefused(watcher, refused, gpus, 0);
    }
  }
  all_.clear();
}

}  // namespace cgpu::shim
