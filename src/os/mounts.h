// The mount operations that mount trees are made with. For a process with one thread; paths are
// absolute. Where the kernel refuses, errors are kPermission.
#ifndef CGPU_OS_MOUNTS_H_
#define CGPU_OS_MOUNTS_H_

#include <dirent.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

// Returns an error made from errno.
[[nodiscard]] Error MountError(std::string what);

using DirPtr = std::unique_ptr<DIR, int (*)(DIR*)>;

// Opens a folder, with O_NOFOLLOW or other flags of open(2). Returns nullptr with errno.
[[nodiscard]] DirPtr OpenDir(int dirfd, const std::string& name, int flags = 0);

[[nodiscard]] bool IsDirectory(const std::string& path);

// Returns a detached copy of the mounts at `dirfd`/`name`, for Attach(). kNotFound: there is no
// such file.
[[nodiscard]] Result<UniqueFd> CloneMount(int dirfd, const std::string& name);
[[nodiscard]] Result<> Attach(const UniqueFd& mount_fd, const std::string& target);

[[nodiscard]] Result<> MountTmpfs(const std::string& target, unsigned long flags,
                                  const char* options);

// Makes the topmost mount at `target` read-only; other restrictions on it stay.
[[nodiscard]] Result<> MakeReadOnly(const std::string& target);

// Covers a folder with an empty read-only tmpfs; leaves other files alone.
[[nodiscard]] Result<> HideFolder(const std::string& folder);

// Returns another way to the folder `dirfd`, which is the root of a mount. Files can be made
// through it even where that mount is read-only.
[[nodiscard]] Result<UniqueFd> WritableClone(int dirfd, const std::string& name);

// Restricts a mount copy before it is attached: read-only, no setuid programs, no devices, and
// mounts on it show nowhere else.
[[nodiscard]] Result<> Restrict(const UniqueFd& mount_fd, const std::string& name);

// Makes the mount that holds the folder `dirfd` (may be O_PATH) private, so that mounts on the
// folder show in no other mount namespace. `name` is for the error.
[[nodiscard]] Result<> KeepMountsHere(int dirfd, const std::string& name);

// One line of /proc/self/mountinfo.
struct MountEntry {
  std::uint64_t id = 0;
  std::string device;  // of the file system: "0:21"
  std::string root;    // the folder of the file system that is mounted
  std::string point;   // the mount point
  std::string type;
  std::string options;  // of the file system, as the line has them, still escaped
};

[[nodiscard]] Result<std::vector<MountEntry>> ReadMounts();

// Returns a word of such a line unescaped: space, tab, newline and backslash stand there as \ooo.
[[nodiscard]] std::string UnescapeMountWord(std::string_view word);

// Returns the lines of a mountinfo file (proc_pid_mountinfo(5)). Skips lines that it cannot read.
[[nodiscard]] std::vector<MountEntry> ParseMounts(const std::string& text);

// The number of the mount that a file lies in, and whether the file is its root.
struct MountOfFile {
  std::uint64_t id = 0;
  bool begins = false;
};

[[nodiscard]] Result<MountOfFile> FindMount(int fd, const std::string& name);

// Returns true if a path lookup finds this mount: no other covers it or a folder above it.
[[nodiscard]] bool IsOnTop(const MountEntry& mount);

}  // namespace cgpu

#endif  // CGPU_OS_MOUNTS_H_
