// The pods of a cluster, as custom metrics name them, and those of them with a cgpu-exporter. All
// comes from the API server.
//
// Thread-safe.
#ifndef CGPU_FLEET_PODS_H_
#define CGPU_FLEET_PODS_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "fleet/selector.h"

namespace cgpu::fleet {

struct PodPlace {
  std::string name;
  std::string node;  // that it is bound to
};

struct Exporter {
  std::string node;     // Kubernetes node that it is on
  std::string address;  // HOST:PORT; empty: the pod has none yet
};

class Pods {
 public:
  // `name_space`: where the pods with an exporter are. These have the label app=cgpu-node and a
  // port "metrics", as the chart's DaemonSet gives it to them.
  explicit Pods(std::string name_space) : name_space_(std::move(name_space)) {}

  // Take what the API server says: the JSON of one pod, or a uid.
  void Set(std::string_view json);
  void Remove(const std::string& uid);
  // Forgets all, before the API server says it again.
  void Reset();

  // Returns those of a namespace that are bound to a node and have not ended, by name.
  [[nodiscard]] std::vector<PodPlace> Find(const std::string& name_space,
                                           const Selector& selector) const;
  // Returns one for each Kubernetes node that has such a pod.
  [[nodiscard]] std::vector<Exporter> Exporters() const;

 private:
  struct Pod {
    PodPlace place;
    Labels labels;
    bool exports = false;
    bool leaves = false;  // is being deleted
    std::string address;  // of its exporter
  };

  const std::string name_space_;
  mutable Mutex mutex_;
  // Namespaces by uid of a pod, and pods by namespace and uid.
  std::map<std::string, std::string> places_ CGPU_GUARDED_BY(mutex_);
  std::map<std::string, std::map<std::string, Pod>> pods_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_PODS_H_
