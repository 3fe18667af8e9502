// Gives every container its standing orders (governor/plan.h), so that each card's policy holds:
// from what the registry says, whenever that changes, and corrected by what the containers were
// seen to get (governor/feedback.h) where several share a card by slices. A shim that has its order
// keeps to it by itself. With an order of high priority, and with the one after it, goes a helper
// that can carry it out (shim/interleave.h), a new one each time, so that one that is gone is
// replaced.
//
// For one thread; waits for nobody: an order is sent, and its answer read when it comes.
#ifndef CGPU_NODE_GOVERN_H_
#define CGPU_NODE_GOVERN_H_

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
#include "governor/feedback.h"
#include "governor/order.h"
#include "node/measure.h"
#include "node/plan_cards.h"
#include "registry/registry.h"

namespace cgpu {

class Governing {
 public:
  // `node`: whose cards they are, as FindNode() takes it; `max_inst`: of cards for which nothing
  // else was set; `suspendable`: see PlanCards().
  Governing(const Registry& registry, const std::string& node, unsigned max_inst,
            std::set<std::string> suspendable);

  // Works out all orders anew and sends those that differ from what was sent. Returns lines for the
  // log.
  [[nodiscard]] std::vector<std::string> Refresh();

  // Descriptors to poll for reading; of those that are readable Look() takes what there is.
  [[nodiscard]] std::vector<int> descriptors() const;
  struct News {
    bool changed = false;  // the registry has: a container more or less, or something was set
    std::vector<std::string> log;
  };
  [[nodiscard]] News Look(const std::vector<int>& readable);

  // When to call Step(), if ever.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> next() const;
  // Corrects the orders, if it is time to, and sends once more what did not arrive. Returns lines
  // for the log.
  [[nodiscard]] std::vector<std::string> Step(std::chrono::steady_clock::time_point now);

 private:
  using Place = std::pair<std::string, std::string>;  // a container's id and a card's UUID
  struct Sent {
    governor::Order planned;
    governor::Order order;                        // as corrected
    UniqueFd answer;                              // invalid: it was read, or none will come
    std::chrono::steady_clock::time_point until;  // the answer is waited for
    bool failed = false;                          // it did not arrive, or was not taken
    std::string text;
  };
  struct Wish {
    governor::Order planned;
    governor::Order order;
    uid_t shim_uid = 0;
    bool levels = false;  // some are to be had, or to be given up
  };
  struct Card : PlannedCard {
    governor::Feedback feedback;
  };

  [[nodiscard]] std::map<Place, Wish> Wanted() const;
  [[nodiscard]] Result<UniqueFd> Ask(const Place& place, const Wish& wish,
                                     std::vector<std::string>& log) const;
  [[nodiscard]] static std::uint64_t LeastMeasuredNs(const std::vector<PlannedMember>& members);
  [[nodiscard]] std::vector<std::string> Measure(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::vector<std::string> Send();
  [[nodiscard]] std::vector<std::string> SendAgain();
  void Failed(Sent& sent);
  void GiveUp(std::chrono::steady_clock::time_point now, std::vector<std::string>& log);
  void ReadAnswer(const Place& place, Sent& sent, std::vector<std::string>& log);

  const Registry& registry_;
  const unsigned max_inst_;
  const std::set<std::string> suspendable_;
  UniqueFd changes_;  // an inotify of the registry's folder
  std::map<std::string, Card> cards_;
  std::map<Place, Sent> sent_;
  std::set<Place> high_;  // that may have levels: they were given an order of high priority
  std::map<std::string, pid_t> shims_;  // the processes that serve the containers
  Measuring measuring_;
  std::chrono::steady_clock::time_point next_;  // that it measures
  // That it sends what did not arrive: some shim takes no orders now, or never does.
  std::optional<std::chrono::steady_clock::time_point> again_;
  std::chrono::seconds patience_;  // until then, the next time
};

}  // namespace cgpu

#endif  // CGPU_NODE_GOVERN_H_
