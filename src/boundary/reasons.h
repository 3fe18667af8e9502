// Why cgpu refuses a call: a few reasons, for counters, and sentences for the user, where several
// tables say the same.
#ifndef CGPU_BOUNDARY_REASONS_H_
#define CGPU_BOUNDARY_REASONS_H_

#include <string_view>

namespace cgpu::boundary {

// protocol/counters.h has their names, in this order.
enum class Reason {
  kMemoryLimit,    // it takes more GPU memory than the limit leaves
  kQuota,          // it takes more of a pool, or makes more objects, than the container may have
  kGpuNotGranted,  // it names a GPU that was not granted
  kInvalid,        // it names what the container does not have, or its parameters make no sense
  kNotAllowed,     // a slice may not do this
  kNotKnown,       // cgpu does not know the command
};

inline constexpr std::string_view kWhyProfilers =
    "profilers (Nsight, CUPTI counters) see the whole card; not in a slice";
inline constexpr std::string_view kWhyMulticast =
    "multicast (NVLS) is not given to slices; set NCCL_NVLS_ENABLE=0";
inline constexpr std::string_view kWhyFabric = "memory of a fabric (IMEX) is not given to slices";
inline constexpr std::string_view kWhyDisplays = "slices have no displays";
inline constexpr std::string_view kWhyNotNeeded = "no program is known to need it in a slice";
inline constexpr std::string_view kWhyNotKnown =
    "not known to cgpu; please report it with this line";
inline constexpr std::string_view kWhyFirmware =
    "a control of the GPU's firmware that is not listed; please report it with this line, and see "
    "cgpu doctor";
inline constexpr std::string_view kWhyFirmwareSize =
    "a control of the GPU's firmware in a size that is not on record; please report it with this "
    "line, and see cgpu doctor";

// Returns the reason of a command that is refused whatever its parameters. `why`: the sentence.
[[nodiscard]] constexpr Reason ReasonOf(std::string_view why) {
  return why == kWhyNotKnown ? Reason::kNotKnown : Reason::kNotAllowed;
}

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_REASONS_H_
