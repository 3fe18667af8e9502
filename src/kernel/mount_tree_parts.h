// The parts of a mount tree that are made alike on the machine and in a container (mount_tree.h):
// what is shown below /proc and /sys, and how folders are mirrored. For mount_tree*.cc alone.
#ifndef CGPU_KERNEL_MOUNT_TREE_PARTS_H_
#define CGPU_KERNEL_MOUNT_TREE_PARTS_H_

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "kernel/mount_tree.h"

namespace cgpu {

// The folder of /dev in which the folders of devices with via_folder are.
inline constexpr char kDevFolder[] = ".nvidia";

// While it lives, what is made can be read by everyone.
class UmaskGuard {
 public:
  UmaskGuard() : old_(umask(022)) {}
  UmaskGuard(const UmaskGuard&) = delete;
  UmaskGuard& operator=(const UmaskGuard&) = delete;
  ~UmaskGuard() { umask(old_); }

 private:
  mode_t old_;
};

[[nodiscard]] Result<> MakeLink(const std::string& target, const std::string& path);

[[nodiscard]] std::string LastComponent(const std::string& path);

// The entries of `folder` whose names begin with `prefix`, as paths; none if it cannot be read.
[[nodiscard]] std::vector<std::string> EntriesOf(const std::string& folder,
                                                 std::string_view prefix);

// The folder itself or, where there is none, the next one above it.
[[nodiscard]] std::string ExistingFolder(std::string path);

// Says of an entry whether a mirror leaves it out; `path` is relative to the folder mirrored first.
using Skip = std::function<bool(const std::string& path, const struct stat& st)>;

// Covers the folder `path` with a writable tmpfs that holds what it held, but for what is skipped.
[[nodiscard]] Result<> MirrorDirectory(const std::string& path, unsigned long flags,
                                       const Skip& skip);

// What is taken from the node before anything covers it.
struct CopiedFile {
  std::string path;  // relative
  std::string content;
  bool link = false;  // content is the link's target
};

struct NodeFiles {
  std::vector<UniqueFd> devices;  // mount copies of the sources, in order
  UniqueFd prover;                // the same
  std::vector<CopiedFile> proc;
  std::vector<CopiedFile> pci;
  std::vector<std::string> cards;  // in /sys/devices, to hide
};

[[nodiscard]] Result<NodeFiles> TakeFromNode(const GpuTree& tree);

// Makes everything but /dev. `prepare` is called with each folder before it is covered.
[[nodiscard]] Result<> MountViews(const GpuTree& tree, const NodeFiles& files,
                                  const std::function<Result<>(const std::string&)>& prepare);

}  // namespace cgpu

#endif  // CGPU_KERNEL_MOUNT_TREE_PARTS_H_
