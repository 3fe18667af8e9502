// A process's mappings of given files, as /proc/PID/maps shows them.
#ifndef CGPU_KERNEL_MAPS_H_
#define CGPU_KERNEL_MAPS_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cgpu::kernel {

struct MappedRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

// A file by its file system (makedev form) and inode number.
using InodeSet = std::set<std::pair<std::uint64_t, std::uint64_t>>;

// The ranges of `text`, in the form of /proc/PID/maps, that map one of `inodes`. Lines that cannot
// be read are passed over.
[[nodiscard]] std::vector<MappedRange> RangesOf(std::string_view text, const InodeSet& inodes);

// The same of process `pid`, which is looked up by number in `proc`: the caller makes sure that it
// was still the process it meant afterwards.
[[nodiscard]] Result<std::vector<MappedRange>> ReadMappings(int proc, pid_t pid,
                                                            const InodeSet& inodes);

// Has thread `tid`, last seen to begin the system call `nr`, come out of it? False while it may be
// in it: so also while it runs, when nothing tells.
[[nodiscard]] bool HasLeftCall(int proc, pid_t tid, int nr);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_MAPS_H_
