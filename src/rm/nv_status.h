// NV_STATUS values: what the driver writes into the status field of an answered call.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/common/sdk/nvidia/inc/nvstatuscodes.h; the
// values are the same in 580.95.05 (which adds some that nothing here needs).
#ifndef CGPU_RM_NV_STATUS_H_
#define CGPU_RM_NV_STATUS_H_

#include <cstdint>

namespace cgpu::rm {

using NvStatus = std::uint32_t;

// One line there is both the number here and the name that StatusName() returns.
#define CGPU_STATUS(name, number) inline constexpr NvStatus name = number;
#include "rm/nv_status.inc"
#undef CGPU_STATUS

// Returns "NV_ERR_NO_MEMORY", or nullptr for a value that is not in nv_status.inc.
[[nodiscard]] const char* StatusName(NvStatus status);

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_STATUS_H_
