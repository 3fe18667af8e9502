// Answers the calls of kube-scheduler to an extender: which nodes a pod fits on, which are best,
// and bind it (k8s.io/kube-scheduler/extender/v1/types.go; its names begin with capitals).
// kube-scheduler sends names of nodes alone (nodeCacheCapable); the nodes come from the API server.
//
// Thread-safe. While the API server is asked, no lock is held.
#ifndef CGPU_KUBE_EXTENDER_H_
#define CGPU_KUBE_EXTENDER_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "kube/decision.h"
#include "kube/state.h"

namespace cgpu::kube {

// Binds a pod: makes the API server's Binding of this JSON for the pod.
using Bind = std::function<Result<>(const std::string& name_space, const std::string& pod,
                                    const std::string& binding)>;

struct PodName {
  std::string name_space;
  std::string name;
};

class Extender {
 public:
  Extender(Key key, Bind bind, PodRules rules = {})
      : key_(std::move(key)), bind_(std::move(bind)), rules_(std::move(rules)) {}

  // Each takes the body of a request and returns the body of the answer.
  [[nodiscard]] std::string Filter(std::string_view body);
  [[nodiscard]] std::string Prioritize(std::string_view body);
  [[nodiscard]] std::string BindPod(std::string_view body, Clock::time_point now);

  // Take what the API server says: the JSON of one object, or a name.
  void SetNode(std::string_view json);
  void RemoveNode(const std::string& name);
  void SetPod(std::string_view json);
  void RemovePod(const std::string& uid);
  // Tells whether lists of all nodes and pods have come. Without them nothing is decided.
  void SetComplete();
  // Forgets all that the API server has said, before it is to say it anew.
  void Reset();
  void Expire(Clock::time_point now);

  // Waits until there is room for pods that were refused, or for `End()`. Returns these pods, each
  // once until it is refused again. kube-scheduler asks again when it sees that something ended,
  // which may be before this extender sees it: then somebody has to tell it.
  [[nodiscard]] std::vector<PodName> WaitForRoom();
  void End();

  // Returns the GiB of the largest GPU that is known; 0: none is.
  [[nodiscard]] std::uint32_t LargestGpu();

 private:
  [[nodiscard]] Result<Decision> Assume(const std::string& uid, const std::string& node,
                                        Clock::time_point now);

  const Key key_;
  const Bind bind_;
  const PodRules rules_;
  Mutex mutex_;
  ClusterState state_ CGPU_GUARDED_BY(mutex_);
  // Pods that kube-scheduler asked about and that are not bound yet, by uid: a request to bind one
  // has its names alone.
  struct Pending {
    PodAsk pod;
    bool refused = false;  // by all nodes that kube-scheduler asked about
  };
  std::map<std::string, Pending> pending_ CGPU_GUARDED_BY(mutex_);
  bool complete_ CGPU_GUARDED_BY(mutex_) = false;
  bool ends_ CGPU_GUARDED_BY(mutex_) = false;
  CondVar changed_;
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_EXTENDER_H_
