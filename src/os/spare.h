// Keeps descriptors free for this process, whatever tenants make it open: the highest numbers that
// it may have. The kernel gives out the lowest number first, so a spare number means that no other
// is left. Any thread may call this.
#ifndef CGPU_OS_SPARE_H_
#define CGPU_OS_SPARE_H_

#include "base/fd.h"

namespace cgpu::os {

// Sets the spare numbers by the present limit of this process (RLIMIT_NOFILE). Some hundreds of its
// descriptors stay out of tenants' reach.
void KeepSpare();

// Returns true if `fd` is a spare number. Always false before KeepSpare().
[[nodiscard]] bool IsSpare(int fd);

// Returns `fd`, for a descriptor that is kept while a process of the tenant lives. If `fd` is a
// spare number, or one of those before them that are left to calls, closes it and returns nothing
// with errno EMFILE. So `fd` must be of a kind whose close waits for nobody.
[[nodiscard]] UniqueFd Frugally(UniqueFd fd);

}  // namespace cgpu::os

#endif  // CGPU_OS_SPARE_H_
