// Kills a container whose shim has ended: without the shim the container's calls fail, but what it
// has mapped and submitted runs on without limits. A shim that ends in order says so to its
// watchers (protocol/admin.h). When one falls silent without that, the Supervisor kills its
// container.
//
// A container of root's own `cgpu run` has its launcher for that; here only its end is noticed.
#ifndef CGPU_CGPUD_SUPERVISOR_H_
#define CGPU_CGPUD_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "cgpud/audit.h"
#include "cgpud/chronicle.h"
#include "host/registry.h"
#include "protocol/text.h"

namespace cgpu {

class Supervisor {
 public:
  // `proc`: an open /proc.
  Supervisor(const Registry& registry, UniqueFd proc)
      : registry_(registry), proc_(std::move(proc)) {}

  // Begins to watch the shims that it does not watch yet. Call at the start and whenever a
  // container may have been added.
  void Refresh();

  // Returns descriptors to poll for reading. Look() reads from those that are readable.
  [[nodiscard]] std::vector<int> descriptors() const;
  // A container that has ended.
  struct Gone {
    std::string id;
    std::string name;
    std::string engine_id;
    unsigned user = 0;
    bool supervised = false;
    bool killed = false;  // here, since its shim ended before it
    bool ended = false;   // its shim said that it has
  };
  struct News {
    std::vector<Refusal> refused;
    std::vector<Denial> denied;
    std::vector<Gone> gone;  // those that are not watched any more
  };
  [[nodiscard]] News Look(const std::vector<int>& readable);

 private:
  // A process that the container began with, or that was added to it.
  struct Root {
    unsigned pid = 0;
    UniqueFd process;     // its pidfd
    std::string cgroups;  // cgroups that are the container's own; empty: none is
  };
  struct Watched {
    UniqueFd shim;
    std::string name;
    std::string engine_id;
    unsigned user = 0;       // uid of the container's user
    std::string text;        // text that is not yet a whole line
    bool supervised = true;  // the container is killed if its shim ends before it
    bool ended = false;
    std::vector<Root> roots;
  };

  static bool Lives(const Root& root);
  static bool Read(Watched& watched);
  void TakeLines(const std::string& id, Watched& watched, News& news) const;
  void AddRoot(Watched& watched, unsigned pid) const;
  void CheckRoot(Watched& watched, unsigned pid, std::uint64_t started) const;
  static void TakeCount(const std::string& id, const Watched& watched, const Words& line,
                        News& news);
  [[nodiscard]] bool MayKill(const Watched& watched, pid_t pid) const;
  void Kill(const Watched& watched) const;

  const Registry& registry_;
  UniqueFd proc_;
  std::map<std::string, Watched> watched_;  // by id
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_SUPERVISOR_H_
