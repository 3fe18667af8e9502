// Says what a Kubernetes node has of GPUs: to the kubelet as devices, at the API server as labels
// and an annotation. The label of the mode says how much of them pods may ask for. What somebody
// else changes is written again.
#ifndef CGPU_APPS_CGPU_DEVICE_PLUGIN_ANNOUNCER_H_
#define CGPU_APPS_CGPU_DEVICE_PLUGIN_ANNOUNCER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "kube/api.h"
#include "kube/gpus.h"
#include "kubelet/device_plugin.h"

namespace cgpu::kube {

// Thread-safe.
class Announcer {
 public:
  using Log = std::function<void(const std::string& sentence)>;

  // `api` must outlive it. `name`: of the Kubernetes node. `model`: of its GPUs.
  Announcer(const Api& api, std::string name, std::string model, std::vector<NodeGpu> gpus, Log log)
      : api_(api),
        name_(std::move(name)),
        model_(std::move(model)),
        log_(std::move(log)),
        gpus_(std::move(gpus)) {}

  // Takes the Kubernetes node as the API server has it. The kubelet hears of devices from the first
  // time on.
  void SetNode(std::string_view json);
  // Takes whether the GPU with this index answers.
  void SetHealthy(std::size_t gpu, bool healthy);

 private:
  void Announce() CGPU_REQUIRES(mutex_);

  const Api& api_;
  const std::string name_;
  const std::string model_;
  const Log log_;
  // Held while the API server is asked, so that the last word is the newest.
  Mutex mutex_;
  std::vector<NodeGpu> gpus_ CGPU_GUARDED_BY(mutex_);
  std::string node_ CGPU_GUARDED_BY(mutex_);  // JSON
  std::unique_ptr<kubelet::DevicePlugin> plugin_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::kube

#endif  // CGPU_APPS_CGPU_DEVICE_PLUGIN_ANNOUNCER_H_
