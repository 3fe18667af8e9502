// The open streams of those that watch the container (registry/admin.h, "watch"). For one thread;
// never waits but at the end.
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
#include "shim/handover.h"

namespace cgpu::shim {

class Watchers {
 public:
  static constexpr std::size_t kMost = 64;

  // Takes the connection, in the place of those that have gone away, which nothing else might show
  // for long. False, and it stays the caller's: there are too many.
  bool Add(UniqueFd& connection);

  // `roots`: the processes that the container began with or that were added to it, as they are now.
  // Everybody is told of those that he has not been told of, once he reads what he was told.
  void Tell(const std::vector<pid_t>& roots);

  // How often calls were refused, by name: everybody is told of those that have grown.
  using Refused = std::map<std::string, std::uint64_t>;
  void TellRefused(const Refused& refused);

  // The container is over. Nobody hears more. Waits for a listener that does not read, for as long
  // as its connection's SO_SNDTIMEO says.
  void TellEnd(const Refused& refused);

  [[nodiscard]] bool empty() const { return all_.empty(); }

  // From one to a later one, with the descriptors.
  [[nodiscard]] std::vector<WatcherState> Save() const;
  void Adopt(const std::vector<WatcherState>& state);

 private:
  struct Watcher {
    UniqueFd connection;
    std::set<pid_t> told;
    Refused told_refused;  // not handed over: to be told twice does no harm
  };

  static void TellRefused(Watcher& watcher, const Refused& refused, int flags);
  static bool IsGone(Watcher& watcher, const std::vector<pid_t>& roots);

  std::vector<Watcher> all_;  // the oldest first
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_WATCHERS_H_
