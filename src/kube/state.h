// The GPUs of a cluster and the pods on them, as cgpu-scheduler knows them. Everything comes from
// the API server; after a restart it comes again. A pod's part counts while any of these is so:
//   * it was decided a moment ago: until the API server shows it, or until it expires;
//   * the pod, which has not ended, carries the decision, or did when it was first seen bound;
//   * its node has let it in and not taken it back (admitted.h). So neither an annotation that
//     somebody deletes nor a pod that is deleted by force makes room where there is none.
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
  void SetNode(const NodeInfo& node, const Key& key);
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

  // Returns those of these pods, which wait for room, that have it now on nodes where room was made
  // since the last call. No more than would fit together.
  [[nodiscard]] std::vector<const PodAsk*> TakeThoseWithRoom(
      const std::vector<const PodAsk*>& waiting);

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
    std::string owner;
    bool assumed = false;   // until that time
    bool on_pod = false;    // the pod has it
    bool admitted = false;  // the node has let it in
    Clock::time_point until;
    std::size_t bytes = 0;  // of the decision
  };
  struct NodeState {
    NodeInfo info;
    placement::Node free;
    std::size_t bytes = 0;                        // of the holders' decisions
    std::set<std::string> holders;                // uids of pods
    std::map<std::string, std::string> admitted;  // uids by texts; "" where a text is worth nothing
  };
  void Hold(const std::string& uid, Holder holder);
  // Removes the holder if nothing says any more that it holds anything.
  void LetGoIfFree(const std::string& uid);
  void LetGo(const std::string& uid);
  void SetAdmitted(const NodeInfo& info, const Key& key);
  // Returns the holder with this decision: the one that is there, or a new one in its place where
  // it was assumed only. Null where the pod has another decision.
  Holder* Known(const std::string& uid, Decision decision);
  [[nodiscard]] std::string WhyNot(const PodAsk& pod, const NodeState& node) const;
  // Returns the bytes that the decision would have.
  [[nodiscard]] static std::size_t BytesFor(const PodAsk& pod, const NodeState& node);
  void Recount(NodeState& node) const;
  // Takes a request into what counts as typical: the last ones.
  void Learn(const placement::Request& request);
  [[nodiscard]] placement::Choice ChooseOn(const NodeState& node, const PodAsk& pod) const;
  // `free`: of the node, what may be chosen.
  [[nodiscard]] placement::Choice ChooseAmong(const placement::Node& free, const NodeState& node,
                                              const placement::Request& request,
                                              const std::string& owner) const;

  std::map<std::string, NodeState> nodes_;
  std::map<std::string, Holder> holders_;  // by the uid of the pod
  std::set<std::string> with_room_;        // nodes where room was made
  std::vector<placement::Request> last_;   // the last that were held; a ring
  std::size_t learned_ = 0;
  placement::Fragmentation fragmentation_{{}};  // by what is typical among them
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_STATE_H_
