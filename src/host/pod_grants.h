// The grants of the pods on this Kubernetes node: one file for each pod, which cgpu's device plugin
// writes once it has checked the scheduler's decision, and cgpud reads when the pod's containers
// are made. Only root may write or read the folder. Once a grant is removed and the registry's lock
// was taken after that, no container of the pod is added to the registry any more.
#ifndef CGPU_HOST_POD_GRANTS_H_
#define CGPU_HOST_POD_GRANTS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu {

inline constexpr char kPodGrants[] = "/run/cgpu/pods";

struct PodGrant {
  struct Part {
    std::uint32_t memory = 0;   // GiB in total over the GPUs, as aliyun.com/gpu-mem counts them
    std::uint32_t compute = 0;  // percent of each GPU; 0: no promise
    std::uint32_t weight = 1;   // see ComputeRequest
    bool high_priority = false;

    bool operator==(const Part&) const = default;
  };
  std::vector<std::string> gpus;           // uuids
  bool isolated = true;                    // held to the parts; else whole GPUs, see CreateSlice()
  std::map<std::string, Part> containers;  // by name
  std::string name_space;  // of the pod; empty, as `name`: an earlier version wrote it
  std::string name;        // of the pod

  bool operator==(const PodGrant&) const = default;
};

// Writes the grant of the pod with this uid, or removes it. The folder is made where it is missing.
[[nodiscard]] Result<> WritePodGrant(const std::string& uid, const PodGrant& grant,
                                     const std::string& folder = kPodGrants);
void RemovePodGrant(const std::string& uid, const std::string& folder = kPodGrants);
[[nodiscard]] bool HasPodGrant(const std::string& uid, const std::string& folder = kPodGrants);
// Returns the uids of all pods with a grant.
[[nodiscard]] std::vector<std::string> ListPodGrants(const std::string& folder = kPodGrants);

// Waits for the pod's grant. kInvalid: `uid` is no pod's. kUnavailable: none came in time.
[[nodiscard]] Result<PodGrant> WaitForPodGrant(const std::string& uid,
                                               std::chrono::milliseconds timeout,
                                               const std::string& folder = kPodGrants);

}  // namespace cgpu

#endif  // CGPU_HOST_POD_GRANTS_H_
