// Describes calls in words: the vendor's names of the request, without its content.
#ifndef CGPU_BOUNDARY_DESCRIBE_H_
#define CGPU_BOUNDARY_DESCRIBE_H_

#include <string>

#include "boundary/call.h"

namespace cgpu::boundary {

// Returns the escape or request, what it selects, and the bytes of its parameters:
// "NV_ESC_RM_CONTROL NV2080_CTRL_CMD_FB_GET_INFO_V2 444", "NV_ESC_RM_ALLOC NV01_DEVICE_0 56",
// "UVM_FREE 24". A number stands for what has no name.
[[nodiscard]] std::string Describe(const Call& call);

// Returns the status as a number, "0x51", or "-" without a status. The reader looks up the name.
[[nodiscard]] std::string DescribeStatus(const Call& call);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_DESCRIBE_H_
