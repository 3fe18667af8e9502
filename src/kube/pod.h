// Reads what a pod asks of GPUs, from its JSON as the API server, the scheduler and admission
// reviews give it. Pure.
#ifndef CGPU_KUBE_POD_H_
#define CGPU_KUBE_POD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "placement/model.h"

namespace cgpu::kube {

// The part of one container, in total over the pod's GPUs.
struct ContainerAsk {
  std::string name;
  std::uint32_t memory = 0;   // GiB
  std::uint32_t compute = 0;  // percent of one GPU
  bool init = false;          // runs to its end before the next one begins
  bool sidecar = false;       // an init container that goes on running (restartPolicy Always)
};

struct PodAsk {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string node;    // where it is bound; empty: nowhere yet
  std::string owner;   // uid of its controller; empty: none
  bool ended = false;  // Succeeded or Failed: it holds nothing
  std::uint32_t gpus = 1;
  std::vector<ContainerAsk> containers;  // those that ask for a part
  std::string decision;                  // the annotation, as it is there

  [[nodiscard]] bool asks() const { return !containers.empty(); }
};

// kInvalid: no pod, or an amount that is no whole number. Does not compare amounts: see Check().
[[nodiscard]] Result<PodAsk> ReadPod(std::string_view json);

// Returns what the whole pod asks of each of its GPUs: of containers that run at the same time the
// sum, of init containers the most.
[[nodiscard]] placement::Request RequestOf(const PodAsk& pod);

// Checks that the amounts can be given: each container's divides evenly among the pod's GPUs.
// kInvalid, with the number that is wrong and one that would do.
[[nodiscard]] Result<> Check(const PodAsk& pod);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_POD_H_
