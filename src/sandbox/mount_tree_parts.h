// Makes the parts of a mount tree that are the same on the machine and in a container
// (mount_tree.h): files below /proc and /sys, and mirrors of folders. For mount_tree*.cc alone.
#ifndef CGPU_SANDBOX_MOUNT_TREE_PARTS_H_
#define CGPU_SANDBOX_MOUNT_TREE_PARTS_H_

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "sandbox/mount_tree.h"

namespace cgpu {

// Name of the folder of /dev that holds the folders of devices with via_folder.
inline constexpr char kDevFolder[] = ".nvidia";

// Makes new files readable by everyone while it lives.
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

// Returns the entries of `folder` whose names begin with `prefix`, as paths; none if the folder
// cannot be read.
[[nodiscard]] std::vector<std::string> EntriesOf(const std::string& folder,
                                                 std::string_view prefix);

// Returns the folder itself or, where it does not exist, the nearest existing one above it.
[[nodiscard]] std::string ExistingFolder(std::string path);

// Returns true for an entry that a mirror leaves out. `path` is relative to the folder that was
// mirrored first.
using Skip = std::function<bool(const std::string& path, const struct stat& st)>;

// Covers the folder `path` with a writable tmpfs that holds what it held, except skipped entries.
[[nodiscard]] Result<> MirrorDirectory(const std::string& path, unsigned long flags,
                                       const Skip& skip);

// A file that is copied from the host before anything covers it.
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
  std::vector<std::string> gpus;  // in /sys/devices, to hide
};

[[nodiscard]] Result<NodeFiles> TakeFromNode(const GpuTree& tree);

// Makes everything except /dev. Calls `prepare` with each folder before it covers the folder.
[[nodiscard]] Result<> MountViews(const GpuTree& tree, const NodeFiles& files,
                                  const std::function<Result<>(const std::string&)>& prepare);

}  // namespace cgpu

#endif  // CGPU_SANDBOX_MOUNT_TREE_PARTS_H_
