// Another process that makes this one's calls of the driver on descriptors that it takes for each,
// as a shim does, where no shim can be: without user notification. It has this process's memory, so
// parameters need no copy.
#ifndef CGPU_TESTS_GPU_ORDERS_HELPER_H_
#define CGPU_TESTS_GPU_ORDERS_HELPER_H_

#include "base/result.h"

namespace cgpu::orders {

// From now on every ioctl() of this process is its helper's. Before any file of the driver is
// opened; with one thread. It ends with this process.
[[nodiscard]] Result<> StartHelper();

// Whether one was started; then as ioctl().
[[nodiscard]] bool HasHelper();
long ByHelper(int fd, unsigned long request, void* argument);

}  // namespace cgpu::orders

#endif  // CGPU_TESTS_GPU_ORDERS_HELPER_H_
