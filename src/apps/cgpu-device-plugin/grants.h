// Gives the pods of this node their grants, and takes them back. Each grant is written in this
// order: the node publishes that it lets the decision in, then cgpud gets the grant. It is taken
// back in the other: the grant is removed, the last container of the pod ends, the node publishes
// that it is free. What cannot be published, since the API server does not answer, is tried again;
// what it refuses, ever more rarely, and others get their grants without it.
//
// Thread-safe. A thread of its own does the work.
#ifndef CGPU_APPS_CGPU_DEVICE_PLUGIN_GRANTS_H_
#define CGPU_APPS_CGPU_DEVICE_PLUGIN_GRANTS_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "host/pod_grants.h"
#include "kube/admitted.h"
#include "kube/api.h"
#include "kube/decision.h"

namespace cgpu::kube {

class Grants {
 public:
  using Log = std::function<void(const std::string& sentence)>;

  // `node`: name of the Kubernetes node. `admitted`: what it has let in before. `api` outlives
  // this.
  Grants(const Api& api, std::string node, Key key, Admitted admitted, Log log);
  Grants(const Grants&) = delete;
  Grants& operator=(const Grants&) = delete;
  ~Grants();

  // Take what the API server says of the node's pods: the JSON of one, the uid of one that is gone,
  // and that all have been said.
  void Set(std::string_view json);
  void Remove(const std::string& uid);
  void SetComplete();
  // Takes what the node says that it has let in: not what was published, if somebody else has
  // changed it, or has made the node anew.
  void SetPublished(const std::string& text);

 private:
  struct Pod {
    std::string name;      // NAMESPACE/NAME
    std::string decision;  // the annotation
  };
  using Pods = std::map<std::string, Pod>;  // that have not ended, by uid

  void Run();
  // Does all that can be done now. Returns false if something is to be tried again.
  bool Work(const Pods& pods, bool complete);
  void Admit(const Pods& pods);
  void TakeBack(const Pods& pods);
  bool Publish();
  // Notes that the API server has refused to let the annotation be this.
  void NoteRefusal(const std::string& text);
  // Takes back the largest decision that is not published yet, for a while. Returns whether there
  // was one.
  bool PutOffLargest();
  void WriteGrants();
  // Waits until something has changed, a container of a pod that is gone has ended, or so long.
  void Wait(std::chrono::milliseconds time);
  void Wake() const;
  // Says it once for each pod.
  void Say(const std::string& uid, const std::string& sentence);

  const Api& api_;
  const std::string node_;
  const Key key_;
  const Log log_;
  const UniqueFd wakes_;

  Mutex mutex_;
  Pods pods_ CGPU_GUARDED_BY(mutex_);
  bool complete_ CGPU_GUARDED_BY(mutex_) = false;
  std::optional<std::string> seen_ CGPU_GUARDED_BY(mutex_);
  bool ends_ CGPU_GUARDED_BY(mutex_) = false;

  // For the thread alone.
  Admitted admitted_;
  std::string published_;          // what the node says
  std::string refused_;            // what the API server has refused last
  std::set<std::string> put_off_;  // uids; until `again_`
  std::chrono::steady_clock::time_point again_;
  std::chrono::milliseconds backoff_{0};
  std::map<std::string, PodGrant> new_;  // let in, but not given to cgpud yet
  std::vector<UniqueFd> ending_;         // end with containers of pods that are gone
  std::map<std::string, std::string> said_;
  std::thread thread_;
};

}  // namespace cgpu::kube

#endif  // CGPU_APPS_CGPU_DEVICE_PLUGIN_GRANTS_H_
