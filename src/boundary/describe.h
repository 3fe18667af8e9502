// Calls in words: the vendor's names of what was asked, and nothing of what was in it.
#ifndef CGPU_BOUNDARY_DESCRIBE_H_
#define CGPU_BOUNDARY_DESCRIBE_H_

#include <string>

#include "boundary/call.h"

namespace cgpu::boundary {

// "NV_ESC_RM_CONTROL NV2080_CTRL_CMD_FB_GET_INFO_V2 444", "NV_ESC_RM_ALLOC NV01_DEVICE_0 56",
// "UVM_FREE 24": the escape or request, what it selects, the bytes of its parameters. What has no
// name is shown by its number.
[[nodiscard]] std::string Describe(const Call& call);

// "NV_ERR_NO_MEMORY"-like numbers are left to the reader: "0x51", or "-" without a status.
[[nodiscard]] std::string DescribeStatus(const Call& call);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_DESCRIBE_H_
