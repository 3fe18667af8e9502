// Reads what a pod asks of GPUs, from its JSON as the API server, the scheduler and admission
// reviews give it. Pure.
#ifndef CGPU_KUBE_POD_H_
#define CGPU_KUBE_POD_H_

#include <cstdint>
#include <optional>
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
  std::uint32_t weight = 1;   // among the containers of its GPUs (governor/policy.h)
  std::uint32_t whole = 0;    // GPUs that it wants whole
  bool high_priority = false;
  bool init = false;     // runs to its end before the next one begins
  bool sidecar = false;  // an init container that goes on running (restartPolicy Always)
};

struct PodAsk {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string node;   // where it is bound; empty: nowhere yet
  std::string owner;  // uid of its controller; empty: none
  std::string priority_class;
  bool ended = false;  // Succeeded or Failed: it holds nothing
  std::uint32_t gpus = 1;
  std::vector<ContainerAsk> containers;  // those that ask for a part
  std::string decision;                  // the annotation, as it is there
  // The first thing in it that cannot be read. A pod that is bound already may have one, since its
  // labels can be changed: what it holds is what its decision says.
  std::optional<Error> mistake;

  [[nodiscard]] bool asks() const { return !containers.empty(); }
  // Returns true if it asks for whole GPUs: one container does, for all of them.
  [[nodiscard]] bool whole() const { return containers.size() == 1 && containers[0].whole != 0; }
};

// Reads a pod. Weight and priority are in the environment of a container, by the names of
// grant/env.h; they count as written in the pod's specification, which nobody can change.
// kInvalid: it is no pod.
[[nodiscard]] Result<PodAsk> ReadPod(std::string_view json);

// Returns true if a container asks for a percentage of the compute time.
[[nodiscard]] bool AsksCompute(const PodAsk& pod);
// Returns true if a container asks for a weight above 1.
[[nodiscard]] bool AsksWeight(const PodAsk& pod);

// Returns what the containers together ask of each of `gpus` GPUs, as Kubernetes computes it: of
// containers that run at the same time the sum, of init containers the most. A container without a
// percentage takes 1 % of the compute time, as the node counts it (governor/policy.h).
[[nodiscard]] placement::Request RequestOf(const std::vector<ContainerAsk>& containers,
                                           std::uint32_t gpus);
[[nodiscard]] placement::Request RequestOf(const PodAsk& pod);

struct PodRules {
  // Classes (priorityClassName) whose pods may have containers of high priority.
  std::vector<std::string> high_priority_classes;
};

// Checks what the pod asks for: it is read without a mistake, divides evenly among the pod's GPUs,
// is a multiple of 5 % of each, fits on one GPU together and into a decision, and the rules allow
// it. kInvalid or kPermission, with the number that is wrong and one that would do.
[[nodiscard]] Result<> Check(const PodAsk& pod, const PodRules& rules);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_POD_H_
