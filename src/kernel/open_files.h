// Who still holds a file open? Asked of /proc, for files whose last close nobody reports.
#ifndef CGPU_KERNEL_OPEN_FILES_H_
#define CGPU_KERNEL_OPEN_FILES_H_

#include <cstdint>
#include <set>

namespace cgpu::kernel {

// Of the inodes `wanted` on file system `dev` (makedev form), those that nobody holds: they appear
// in no descriptor table of any thread and in no mapping, and no socket carries a descriptor that
// has not been received yet. Processes that we may not look into do not count. `proc` is an open
// /proc. Reads all of /proc: only for moments that are rare. When in doubt a file counts as held.
[[nodiscard]] std::set<std::uint64_t> ClosedInodes(int proc, std::uint64_t dev,
                                                   const std::set<std::uint64_t>& wanted);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_OPEN_FILES_H_
