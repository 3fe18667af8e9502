// The GPUs of a cluster and the pods on them, as cgpu-scheduler knows them. Everything comes from
// the API server; after a restart it comes again. A place that was decided a moment ago counts
// until the API server shows the pod there, or until it expires.
//
// Pure: the clock is an argument. For one thread.
#ifndef CGPU_KUBE_STATE_H_
#define CGPU_KUBE_STATE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/decision.h"
#include "kube/gpus.h"
#include "kube/pod.h"
#include "placement/model.h"
#include "placement/policy.h"

namespace cgpu::kube {

using Clock = std::chrono::steady_clock;

class ClusterState {
 public:
  // A place that is assumed counts so long without the API server's word.
  static constexpr std::chrono::seconds kAssumed{60};

  // Take what the API server says. `key`: decisions that it has not signed count for nothing.
  void SetNode(const NodeInfo& node);
  void RemoveNode(const std::string& name);
  void SetPod(const PodAsk& pod, const Key& key);
  void RemovePod(const std::string& uid);

  // Returns why the pod does not fit on the node, or nothing if it fits.
  [[nodiscard]] std::string WhyNot(const PodAsk& pod, const std::string& node) const;
  // Returns the score of a node that the pod fits on: 0 to placement::kMaxScore.
  [[nodiscard]] int Score(const PodAsk& pod, const std::string& node) const;
  // Decides which GPUs of the node the pod gets, and assumes it there from `now` on. A pod that has
  // been decided for this node gets the same answer again. kExhausted: it does not fit any more.
  // kConflict: it was decided for another node.
  [[nodiscard]] Result<Decision> Assume(const PodAsk& pod, const std::string& node,
                                        Clock::time_point now);
  // Takes an assumption back: the pod could not be bound.
  void Forget(const std::string& uid);
  // Drops assumptions that the API server did not confirm in time. Returns the uids.
  std::vector<std::string> Expire(Clock::time_point now);

  // Returns the GiB of the largest GPU of all nodes; 0: there is none.
  [[nodiscard]] std::uint32_t LargestGpu() const;

  struct Use {
    std::uint32_t memory = 0;  // GiB
    std::uint32_t compute = 0;
    std::uint32_t pods = 0;
  };
  // Returns what is given of each GPU of the node, by its uuid.
  [[nodiscard]] std::map<std::string, Use> UseOf(const std::string& node) const;

 private:
  struct Holder {
    Decision decision;
    placement::Request request;
    std::string owner;
    bool assumed = false;
    Clock::time_point until;
  };
  struct NodeState {
    NodeInfo info;
    placement::Node free;
    std::set<std::string> holders;  // uids of pods
  };
  void Hold(const std::string& uid, Holder holder);
  void LetGo(const std::string& uid);
  void Recount(NodeState& node) const;
  [[nodiscard]] placement::Choice ChooseOn(const NodeState& node, const PodAsk& pod) const;

  std::map<std::string, NodeState> nodes_;
  std::map<std::string, Holder> holders_;  // by the uid of the pod
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_STATE_H_
