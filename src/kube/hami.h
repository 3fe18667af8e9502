// Rewrites a pod that asks for GPUs by HAMi's names into one that asks by ours (names.h):
//
//   nvidia.com/gpu                N different GPUs; 1 where only the others are there
//   nvidia.com/gpumem             MiB of each
//   nvidia.com/gpumem-percentage  the same, in percent of the cluster's largest GPU
//   nvidia.com/gpucores           percent of each one's compute time
//
// A container with nvidia.com/gpu alone has all memory of each. Source of the names and of what
// they mean: Project-HAMi/HAMi, pkg/device/nvidia/device.go (MutateAdmission(),
// GenerateResourceRequests()). Pure.
#ifndef CGPU_KUBE_HAMI_H_
#define CGPU_KUBE_HAMI_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::kube {

// Takes and returns the JSON of a pod. `largest`: GiB of the largest GPU; 0: not known. kInvalid,
// with the number that is wrong and one that would do, or with the name that has no equal here.
[[nodiscard]] Result<std::string> FromHamiNames(std::string_view pod, std::uint32_t largest);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_HAMI_H_
