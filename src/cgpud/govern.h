// Gives every container its standing orders (governor/plan.h), so that each GPU's policy holds. It
// works the orders out from what the registry says, whenever that changes. Where several containers
// share a GPU by time slices, it corrects the orders by what they were seen to get
// (governor/feedback.h), if that GPU was seen to take such orders (governor/card.h). Where an idle
// group is to hold them to their caps, it has that group (idle_holder.h). A shim that has its order
// keeps to it by itself. With an order of high priority, with the one after it, and with one that
// needs restarts, goes a helper that can carry it out (shim/interleave.h). It is a new helper with
// each plan, so that one that is gone is replaced.
//
// For one thread. It never waits: it sends an order, and reads the answer when that comes.
#ifndef CGPU_CGPUD_GOVERN_H_
#define CGPU_CGPUD_GOVERN_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "cgpud/folder_watch.h"
#include "cgpud/idle_holder.h"
#include "cgpud/measure.h"
#include "cgpud/plan_gpus.h"
#include "governor/card.h"
#include "governor/feedback.h"
#include "governor/idle_control.h"
#include "governor/order.h"
#include "host/node.h"
#include "host/registry.h"

namespace cgpu {

class Governing {
 public:
  // `node`: the GPUs' node, as FindNode() takes it; `max_inst`: for GPUs for which nothing else was
  // set.
  Governing(const Registry& registry, const std::string& node, unsigned max_inst);

  // Works out all orders again and sends those that differ from what was sent. Returns lines for
  // the log.
  [[nodiscard]] std::vector<std::string> Refresh();

  // Lets go of the GPUs that idle groups hold, before another program takes over.
  void Stop() { holders_.clear(); }

  // Returns descriptors to poll for reading. Look() reads from those that are readable.
  [[nodiscard]] std::vector<int> descriptors() const;
  struct News {
    bool changed = false;  // the registry has: a container more or less, or something was set
    std::vector<std::string> log;
  };
  [[nodiscard]] News Look(const std::vector<int>& readable);

  // Returns when to call Step(), if ever.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> next() const;
  // Corrects the orders, if it is time to, and sends again what did not arrive. Returns lines for
  // the log.
  [[nodiscard]] std::vector<std::string> Step(std::chrono::steady_clock::time_point now);

 private:
  using Place = std::pair<std::string, std::string>;  // a container's id and a GPU's UUID
  struct Sent {
    governor::Order planned;
    governor::Order order;  // order as corrected
    UniqueFd answer;        // socket of the answer; invalid: it was read, or none will come
    std::chrono::steady_clock::time_point until;  // end of the wait for the answer
    bool failed = false;                          // the order did not arrive, or was not taken
    std::string text;
  };
  struct Target {
    governor::Order planned;
    governor::Order order;
    uid_t shim_uid = 0;
    bool helper = false;  // interleave levels are wanted, or must be given up; or restarts are
  };
  struct Gpu : PlannedGpu {
    governor::Feedback feedback;
    bool corrects = false;  // its containers share it by time slices that may be corrected
    governor::IdleControl idle;
    std::chrono::steady_clock::time_point measured;  // when it was last, or was quiet
  };

  void FindMeans();
  [[nodiscard]] bool MayCorrect(const std::string& uuid, const CardMeans& means,
                                std::vector<std::string>& log);
  void PlanIdle(const std::string& uuid, Gpu& gpu, std::vector<std::string>& log);
  void GiveUpIdle(const std::string& uuid, Gpu& gpu, const Error& why,
                  std::vector<std::string>& log);
  void HoldBack(std::vector<std::string>& log);
  [[nodiscard]] std::map<Place, Target> Wanted() const;
  [[nodiscard]] Result<UniqueFd> Ask(const Place& place, const Target& target, bool with_helper,
                                     std::vector<std::string>& log) const;
  [[nodiscard]] static std::uint64_t LeastMeasuredNs(const Gpu& gpu);
  [[nodiscard]] static std::chrono::microseconds StillTime(const Gpu& gpu);
  void Take(Gpu& gpu, const governor::Meter::Use& use, std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::vector<std::string> Measure(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::vector<std::string> Send();
  [[nodiscard]] std::vector<std::string> SendAgain();
  void Failed(Sent& sent);
  void GiveUp(std::chrono::steady_clock::time_point now, std::vector<std::string>& log);
  void ReadAnswer(const Place& place, Sent& sent, std::vector<std::string>& log);

  const Registry& registry_;
  const unsigned max_inst_;
  const std::string node_name_;
  std::optional<Node> node_;
  Means means_;
  std::set<std::string> staid_;  // GPUs of which the log has that nothing is corrected
  std::map<std::string, IdleHolder> holders_;  // by GPU
  std::set<std::string> unheld_;               // GPUs of which the log has that it cannot be held
  FolderWatch changes_;  // of the registry, into which grants and settings are renamed
  std::map<std::string, Gpu> gpus_;
  std::map<Place, Sent> sent_;
  std::set<Place> high_;  // may have interleave levels: were given an order of high priority
  std::map<std::string, pid_t> shims_;  // processes that serve the containers
  Measuring measuring_;
  std::chrono::steady_clock::time_point next_;  // time of the next measurement
  // Time of trying again to hold a GPU's containers to their caps.
  std::optional<std::chrono::steady_clock::time_point> hold_again_;
  // Time of sending again what did not arrive: some shim takes no orders now, or never does.
  std::optional<std::chrono::steady_clock::time_point> again_;
  std::chrono::seconds backoff_;  // backoff before `again_`, the next time
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_GOVERN_H_
