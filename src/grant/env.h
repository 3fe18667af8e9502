// Reads the request that a container's environment makes (Docker without an orchestrator). Two
// families of names are accepted, Alibaba Cloud's cGPU names and this project's own:
//
//   ALIYUN_COM_GPU_MEM_CONTAINER, _MEM_DEV   fraction of each GPU: CONTAINER of DEV
//   ALIYUN_COM_GPU_VISIBLE_DEVICES           "0,2" or UUIDs
//   NVIDIA_VISIBLE_DEVICES                   the same, where that one is not set; beside it, more
//                                            GPUs, which the container has whole
//   ALIYUN_COM_GPU_SCHD_WEIGHT, _HIGH_PRIO
//   CGPU_MEM=4096MiB  CGPU_DEVICES=0,2  CGPU_COMPUTE=30  CGPU_COMPUTE_MAX=60  CGPU_WEIGHT=2
//   CGPU_PRIORITY=high|normal
//   CGPU_DISABLE=true|1                      no isolation for this container
//
// A slice is asked for by ALIYUN_COM_GPU_MEM_CONTAINER or by a CGPU_ name other than CGPU_DISABLE.
// Without these, the other names mean nothing.
//
// Images set NVIDIA_VISIBLE_DEVICES=all, so it counts only where it lists GPUs. "nvidia.com/gpu=0",
// a GPU's name in CDI specifications, is such a list.
//
// A name that is nearly one of the project's own is refused: its writer would think that it counts.
//
// Pure; every error names the variable.
#ifndef CGPU_GRANT_ENV_H_
#define CGPU_GRANT_ENV_H_

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "grant/request.h"

namespace cgpu {

struct EnvRequest {
  // Kind of container.
  enum class Mode {
    kUnmanaged,  // asks for no slice: a plain NVIDIA container
    kDisabled,   // CGPU_DISABLE: asks for no isolation
    kManaged,
  };
  Mode mode = Mode::kUnmanaged;
  ResourceRequest resources;  // memory and GPUs of both families; MakeGrant() compares them
  ComputeRequest compute;
};

// Returns the values by name, from "NAME=VALUE". Where a name occurs more than once, the last one
// counts.
[[nodiscard]] std::map<std::string, std::string> VariablesOf(
    const std::vector<std::string>& environment);

// Returns the "NAME=VALUE" entries with the names above, and those that EnvGrant() refuses. The
// rest of an environment is private.
[[nodiscard]] std::vector<std::string> GrantVariables(const std::vector<std::string>& environment);

// Returns the request. kInvalid: a value is wrong in itself. kConflict: the two families disagree.
[[nodiscard]] Result<EnvRequest> EnvGrant(const std::map<std::string, std::string>& environment);

// Returns the weight and the priority alone: the container of a pod asks for these in its
// environment, and for the rest in its resources. Errors as EnvGrant().
[[nodiscard]] Result<ComputeRequest> EnvWeightAndPriority(
    const std::map<std::string, std::string>& environment);

}  // namespace cgpu

#endif  // CGPU_GRANT_ENV_H_
