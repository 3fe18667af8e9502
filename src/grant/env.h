// The grant that a container's environment asks for (Docker without an orchestrator). Two families
// of names are accepted, Alibaba Cloud's cGPU names and this project's own:
//
//   ALIYUN_COM_GPU_MEM_CONTAINER, _MEM_DEV   parts of each card: CONTAINER of DEV
//   ALIYUN_COM_GPU_VISIBLE_DEVICES           "0,2" or UUIDs
//   NVIDIA_VISIBLE_DEVICES                   as that, where that is not set; beside it, more cards,
//                                            which the container has whole
//   ALIYUN_COM_GPU_SCHD_WEIGHT, _HIGH_PRIO
//   CGPU_MEM=4096MiB  CGPU_DEVICES=0,2  CGPU_COMPUTE=30  CGPU_COMPUTE_MAX=60  CGPU_WEIGHT=2
//   CGPU_PRIORITY=high|normal
//   CGPU_DISABLE=true|1                      no isolation for this container
//
// Images set NVIDIA_VISIBLE_DEVICES=all: only a list of cards is looked at, "nvidia.com/gpu=0" (its
// name in CDI specifications) being one of them.
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
  // What kind of container this is.
  enum class Mode {
    kUnmanaged,  // asks for nothing of ours: a plain NVIDIA container
    kDisabled,   // CGPU_DISABLE: asks to be left alone
    kManaged,
  };
  Mode mode = Mode::kUnmanaged;
  ResourceRequest resources;  // both families' memory and cards, which MakeGrant() compares
  ComputeRequest compute;
};

// By name, of "NAME=VALUE"; of one name the last counts.
[[nodiscard]] std::map<std::string, std::string> VariablesOf(
    const std::vector<std::string>& environment);

// Of "NAME=VALUE", those of the names above: the rest of an environment is nobody's business.
[[nodiscard]] std::vector<std::string> GrantVariables(const std::vector<std::string>& environment);

// kInvalid for a value that is wrong in itself, kConflict where the two families disagree.
[[nodiscard]] Result<EnvRequest> EnvGrant(const std::map<std::string, std::string>& environment);

}  // namespace cgpu

#endif  // CGPU_GRANT_ENV_H_
