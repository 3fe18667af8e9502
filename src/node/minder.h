// Sees to it that no container outlives its shim: without it the container's calls fail, but what
// it has mapped and submitted runs on without limits. A shim that ends in order says so to whoever
// watches (registry/admin.h); when one falls silent without, its container is killed.
//
// Containers of root's own `cgpu run` have their launcher for that; here their end alone is
// noticed.
#ifndef CGPU_NODE_MINDER_H_
#define CGPU_NODE_MINDER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "node/audit.h"
#include "registry/registry.h"

namespace cgpu {

class Minder {
 public:
  // `proc`: an open /proc.
  Minder(const Registry& registry, UniqueFd proc) : registry_(registry), proc_(std::move(proc)) {}

  // Begins to watch what nobody here watches yet. Call at the start and whenever a container may
  // have been added.
  void Refresh();

  // Descriptors to poll for reading; of those that are readable, Look() takes what there is.
  [[nodiscard]] std::vector<int> descriptors() const;
  struct News {
    std::vector<std::string> killed;  // ids of containers, for the log
    std::vector<Refusal> refused;     // but of root's own `cgpu run`
    std::vector<std::string> gone;    // those that are no longer watched, the killed ones too
  };
  [[nodiscard]] News Look(const std::vector<int>& readable);

 private:
  // A process that the container began with, or that was added to it.
  struct Root {
    unsigned pid = 0;
    UniqueFd process;     // its pidfd
    std::string cgroups;  // that are the container's own; empty: none is
  };
  struct Watched {
    UniqueFd shim;
    std::string engine_id;
    unsigned user = 0;   // whose container it is
    std::string text;    // not yet a whole line
    bool minded = true;  // killed if its shim ends before it
    bool ended = false;
    std::vector<Root> roots;
  };

  static bool Read(Watched& watched);
  void TakeLines(const std::string& id, Watched& watched, News& news) const;
  void AddRoot(Watched& watched, unsigned pid) const;
  [[nodiscard]] bool MayKill(const Watched& watched, pid_t pid) const;
  void Kill(const Watched& watched) const;

  const Registry& registry_;
  UniqueFd proc_;
  std::map<std::string, Watched> watched_;  // by id
};

}  // namespace cgpu

#endif  // CGPU_NODE_MINDER_H_
