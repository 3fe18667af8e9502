// Sentences that tell a user why cgpu refuses something, where several tables say the same.
#ifndef CGPU_BOUNDARY_REASONS_H_
#define CGPU_BOUNDARY_REASONS_H_

#include <string_view>

namespace cgpu::boundary {

inline constexpr std::string_view kWhyProfilers =
    "profilers (Nsight, CUPTI counters) see the whole card; not in a slice";
inline constexpr std::string_view kWhyMulticast =
    "multicast (NVLS) is not given to slices; set NCCL_NVLS_ENABLE=0";
inline constexpr std::string_view kWhyFabric = "memory of a fabric (IMEX) is not given to slices";
inline constexpr std::string_view kWhyDisplays = "slices have no displays";
inline constexpr std::string_view kWhyNotNeeded = "no program is known to need it in a slice";
inline constexpr std::string_view kWhyNotKnown =
    "not known to cgpu; please report it with this line";

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_REASONS_H_
