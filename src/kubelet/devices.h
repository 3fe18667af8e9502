// The devices that the kubelet counts for cgpu's resources. A device is one GiB of a GPU, one
// percent of its compute time, or the GPU itself. They are there to be counted: which GPU a pod
// gets is the scheduler's decision (kube/decision.h), whatever devices the kubelet chooses.
//
// Pure.
#ifndef CGPU_KUBELET_DEVICES_H_
#define CGPU_KUBELET_DEVICES_H_

#include <map>
#include <string>
#include <vector>

#include "kube/gpus.h"

namespace cgpu::kubelet {

struct Device {
  std::string id;
  bool healthy = true;

  bool operator==(const Device&) const = default;
};

// By the name of the resource.
using Resources = std::map<std::string, std::vector<Device>>;

// Returns the devices of all of cgpu's resources on a Kubernetes node that shares its GPUs so. A
// resource that the mode does not have is there with no devices.
[[nodiscard]] Resources ResourcesOf(const std::vector<kube::NodeGpu>& gpus, kube::Mode mode);

}  // namespace cgpu::kubelet

#endif  // CGPU_KUBELET_DEVICES_H_
