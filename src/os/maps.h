// Reads from /proc/PID/maps what may be managed memory, and what a thread is doing.
#ifndef CGPU_OS_MAPS_H_
#define CGPU_OS_MAPS_H_

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cgpu::os {

struct MappedRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

// Files by file system (makedev form) and inode number.
using InodeSet = std::set<std::pair<std::uint64_t, std::uint64_t>>;

// Takes whole lines in the form of /proc/PID/maps off `text`, and adds to `ranges` the shared
// mappings that lie at the address that is their offset, of whatever file: that of nvidia-uvm may
// have another inode in each container, and other programs have no such mappings. A mapping that
// was moved does not lie there. Skips lines that it cannot read.
void TakeRanges(std::string& text, std::vector<MappedRange>& ranges);

// Returns true if mappings of this file show the device that stat() returns. That is not so on
// btrfs, where each subvolume has a device of its own (fs/btrfs/inode.c btrfs_getattr()), nor on
// overlayfs, where each layer may have one (fs/overlayfs/inode.c ovl_map_dev_ino()): /proc/PID/maps
// shows the file system's device (fs/proc/task_mmu.c show_map_vma()).
[[nodiscard]] bool ShowItsDevice(int file);

// Returns true if thread `tid`, last seen at the start of one of the system calls `calls`, has left
// it. Returns false while it may be in the call, so also while it runs, when nothing tells.
[[nodiscard]] bool HasLeftCalls(int proc, pid_t tid, std::initializer_list<int> calls);

}  // namespace cgpu::os

#endif  // CGPU_OS_MAPS_H_
