// Numbers of the driver's ioctls.
//
// The driver looks at _IOC_NR and _IOC_SIZE of a request and at nothing else (NVIDIA/
// open-gpu-kernel-modules 550.163.01 kernel-open/nvidia/nv.c nvidia_ioctl): type byte and direction
// bits may have any value. nvidia-uvm compares whole 32-bit numbers. Their type byte is zero, and
// what UVM_INITIALIZE and UVM_DEINITIALIZE have in the place of a size is none.
#ifndef CGPU_RM_NV_ESCAPE_H_
#define CGPU_RM_NV_ESCAPE_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

// From src/nvidia/arch/nvalloc/unix/include/nv_escape.h, nv-ioctl-numbers.h (NV_IOCTL_BASE is 200)
// and nv-ioctl-numa.h. One line there is both the number here and the row in escape_table.h.
#define CGPU_ESCAPE(name, number, ...) inline constexpr NvU8 name = number;
#include "rm/escapes.inc"
#undef CGPU_ESCAPE
inline constexpr NvU8 NV_IOCTL_MAGIC = 'F';

// From kernel-open/common/inc/nv.h: the largest inner size NV_ESC_IOCTL_XFER_CMD takes.
inline constexpr NvU32 NV_ABSOLUTE_MAX_IOCTL_SIZE = 16384;

// Returns the request number with the vendor's own type and direction, as its libraries issue it.
[[nodiscard]] constexpr NvU32 EscapeRequest(NvU8 nr, NvU32 size) {
  return 0xC0000000U | ((size & 0x3FFFU) << 16) | (NvU32{NV_IOCTL_MAGIC} << 8) | nr;
}
// Return the parts of a request number that the driver reads.
[[nodiscard]] constexpr NvU8 EscapeNr(NvU32 request) {
  return static_cast<NvU8>(request & 0xFFU);
}
[[nodiscard]] constexpr NvU32 EscapeSize(NvU32 request) {
  return (request >> 16) & 0x3FFFU;
}

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_ESCAPE_H_
