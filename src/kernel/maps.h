// Mappings of given files, as /proc/PID/maps shows them, and what a thread is doing.
#ifndef CGPU_KERNEL_MAPS_H_
#define CGPU_KERNEL_MAPS_H_

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cgpu::kernel {

struct MappedRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

// A file by its file system (makedev form) and inode number.
using InodeSet = std::set<std::pair<std::uint64_t, std::uint64_t>>;

// Takes whole lines in the form of /proc/PID/maps off `text`, and adds the ranges of those that map
// one of `inodes` and lie at the address that is their offset: what was moved there does not. Lines
// that cannot be read are passed over.
void TakeRanges(std::string& text, const InodeSet& inodes, std::vector<MappedRange>& ranges);

// Do mappings of this file show the device that stat() gives it? Not on btrfs, where each subvolume
// has a device of its own (fs/btrfs/inode.c btrfs_getattr()), nor on overlayfs, where each layer
// may (fs/overlayfs/inode.c ovl_map_dev_ino()); /proc/PID/maps has that of the file system
// (fs/proc/task_mmu.c show_map_vma()).
[[nodiscard]] bool ShowItsDevice(int file);

// Has thread `tid`, last seen to begin one of the system calls `calls`, come out of it? False while
// it may be in it: so also while it runs, when nothing tells.
[[nodiscard]] bool HasLeftCalls(int proc, pid_t tid, std::initializer_list<int> calls);

}  // namespace cgpu::kernel

#endif  // CGPU_KERNEL_MAPS_H_
