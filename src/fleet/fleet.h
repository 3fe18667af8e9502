// Keeps what the exporters of all Kubernetes nodes answer, for as long as somebody wants to know
// it: it asks them only when it is asked itself.
//
// Thread-safe. One caller at a time asks the exporters; others wait for that.
#ifndef CGPU_FLEET_FLEET_H_
#define CGPU_FLEET_FLEET_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "fleet/answer.h"
#include "fleet/pods.h"

namespace cgpu::fleet {

class Fleet {
 public:
  // Returns an answer for each of them, in their order (ask.h).
  using Ask = std::function<std::vector<Result<std::string>>(const std::vector<Exporter>&)>;

  // `pods` outlives this.
  Fleet(const Pods& pods, Ask ask) : pods_(pods), ask_(std::move(ask)) {}

  // Seconds for which answers are as good as new.
  static constexpr double kFresh = 5;
  // Seconds after which an answer is too old to be compared with a new one.
  static constexpr double kOld = 120;

  // Asks all exporters, unless their answers are fresh. `now`: Unix time, in seconds, as in each
  // call.
  void Refresh(double now);

  // Returns the overview of all nodes, as JSON.
  [[nodiscard]] std::string Overview(double now);

  struct Figures {
    PodFigures of_pod;
    double seconds = 0;  // that they were taken over
    double time = 0;     // when
  };
  // Returns what Refresh() has found of a pod that is on this node. Nothing: its node has not told
  // of it, or only once. Another node's word does not count.
  [[nodiscard]] std::optional<Figures> Find(const std::string& node, const PodName& pod) const;

 private:
  struct Node {
    std::string json;  // its object in the overview
    std::optional<NodeAnswer> last;
    double asked = 0;  // when `last` came
    std::map<PodName, PodFigures> figures;
    double seconds = 0;  // that `figures` were taken over
  };
  static void Take(Node& node, NodeAnswer answer, double now);

  const Pods& pods_;
  const Ask ask_;
  mutable Mutex mutex_;
  double asked_ CGPU_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Node> nodes_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_FLEET_H_
