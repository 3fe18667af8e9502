// Finds where folders of the host show in a container, whatever its mounts are named: as a bind of
// a bind, a volume, a folder above them, the container's root itself. Compares what is mounted (the
// device of the file system, and the folder of it) by /proc/self/mountinfo.
//
// Does not find files that another file system serves again, as a FUSE server of root's does.
#ifndef CGPU_SANDBOX_OWN_FOLDERS_H_
#define CGPU_SANDBOX_OWN_FOLDERS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/mounts.h"

namespace cgpu {

// A file or folder, by the file system that it is in.
struct FilePlace {
  std::string device;  // as MountEntry::device
  std::string path;    // from that file system's own root: "/cgpu"
};

// Finds `path` as this process sees it. `mounts` is ReadMounts(). Returns nothing if there is no
// such file.
[[nodiscard]] Result<std::optional<FilePlace>> FindPlace(const std::string& path,
                                                         const std::vector<MountEntry>& mounts);

// Returns the paths at which the mounts at or below the folder `root` show one of `places` or a
// part of one, as seen from `root`: "/x/cgpu". Another mount may cover them. Pure.
[[nodiscard]] std::vector<std::string> WhereTheyShow(const std::vector<FilePlace>& places,
                                                     const std::string& root,
                                                     const std::vector<MountEntry>& mounts);

// Returns the absolute paths that an overlay's layers may have, by its options; nothing for other
// mounts. Layers with relative paths belong to a container engine, which went to its folder of
// images to mount them. Pure.
[[nodiscard]] std::set<std::string> LayersOf(const MountEntry& mount);

// Returns WhereTheyShow() for `own`, for a process that is not in the container's root yet.
// kConflict: an overlay below `root` has a layer at, below or above one of them.
[[nodiscard]] Result<std::vector<std::string>> FindOwnFolders(
    const std::vector<std::string>& own, const std::string& root,
    const std::vector<MountEntry>& mounts);

}  // namespace cgpu

#endif  // CGPU_SANDBOX_OWN_FOLDERS_H_
