// Descriptors that this process keeps free for itself, whatever tenants make it open: the highest
// numbers that it may have. The kernel gives out the lowest first, so a number among them says that
// there is no other left. From any thread.
#ifndef CGPU_KERNEL_SPARE_H_
#define CGPU_KERNEL_SPARE_H_

#include "base/fd.h"

namespace cgpu::kernel {

// As many as this process may open from now on, less some hundreds, are what tenants can take.
void KeepSpare();

// Is `fd` one of those? Never, before KeepSpare().
[[nodiscard]] bool IsSpare(int fd);

// For descriptors that are kept for as long as a process of the tenant's lives: `fd`, or nothing
// with errno EMFILE where it is one of those, or of those before them that are left to calls. Then
// it is closed, so it must be of a kind whose close waits for nobody.
[[nodiscard]] UniqueFd Frugally(UniqueFd fd);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_SPARE_H_
