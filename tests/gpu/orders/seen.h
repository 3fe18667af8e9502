// Which channels a library in this process asks the driver for: the program's own ioctl() stands
// before libc's, which a library calls by name. It changes nothing of a call.
#ifndef CGPU_TESTS_GPU_ORDERS_SEEN_H_
#define CGPU_TESTS_GPU_ORDERS_SEEN_H_

#include <vector>

#include "rm/nv_types.h"

namespace cgpu::orders {

struct SeenObject {
  rm::NvHandle client = 0;
  rm::NvHandle parent = 0;
  rm::NvHandle handle = 0;
  rm::NvU32 cls = 0;
  rm::NvU32 engine = 0;  // of a channel group: NV2080_ENGINE_TYPE_*
};

// Channel groups and channels that were allocated between the two, by any thread.
void BeginToSee();
[[nodiscard]] std::vector<SeenObject> EndToSee();

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_SEEN_H_
