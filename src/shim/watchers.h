// The open streams of watchers of the container (protocol/admin.h, "watch"). For one thread; never
// waits except in TellEnd().
#ifndef CGPU_SHIM_WATCHERS_H_
#define CGPU_SHIM_WATCHERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "protocol/admin.h"
#include "shim/handover.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {

class Watchers {
 public:
  static constexpr std::size_t kMost = 64;

  // Takes the connection, in the place of those that have gone away, which nothing else might show
  // for long. Returns false if there are too many; the connection then stays the caller's.
  bool Add(UniqueFd& connection);

  // Tells every watcher the processes in `roots` that it was not told yet, once it has read what it
  // was told. `roots`: the processes that the container began with or that were added to it, as
  // they are now.
  void Tell(const std::vector<WorkerPool::Root>& roots);

  // Tells every watcher how often calls were refused, by name, and memory, by GPU, where the number
  // has grown.
  using Refused = std::map<std::string, std::uint64_t>;
  void TellRefused(const Refused& refused, const std::vector<GpuStatus>& gpus);

  // Tells every watcher that the container is over; they hear nothing more. Waits for a watcher
  // that does not read, for as long as its connection's SO_SNDTIMEO says.
  void TellEnd(const Refused& refused, const std::vector<GpuStatus>& gpus);

  [[nodiscard]] bool empty() const { return all_.empty(); }

  // Hand-over to a later one, with the descriptors.
  [[nodiscard]] std::vector<WatcherState> Save() const;
  void Adopt(const std::vector<WatcherState>& state);

 private:
  struct Watcher {
    UniqueFd connection;
    std::set<pid_t> told;
    // These two are not handed over: telling it twice does no harm.
    Refused told_refused;
    Refused told_denied;  // by a GPU's UUID
  };

  static void TellRefused(Watcher& watcher, const Refused& refused,
                          const std::vector<GpuStatus>& gpus, int flags);
  static bool IsGone(Watcher& watcher, const std::vector<WorkerPool::Root>& roots);

  std::vector<Watcher> all_;  // the oldest first
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_WATCHERS_H_
