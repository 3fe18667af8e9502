// The mount operations that mount trees are made with. For a process with one thread; paths are
// absolute. Errors are kPermission where the kernel refuses.
#ifndef CGPU_KERNEL_MOUNTS_H_
#define CGPU_KERNEL_MOUNTS_H_

#include <dirent.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu {

// An error from errno.
[[nodiscard]] Error MountError(std::string what);

using DirPtr = std::unique_ptr<DIR, int (*)(DIR*)>;

// nullptr with errno. A last component that is a link is not followed.
[[nodiscard]] DirPtr OpenDir(int dirfd, const std::string& name);

[[nodiscard]] bool IsDirectory(const std::string& path);

// A detached copy of the mounts at `dirfd`/`name`, to be attached elsewhere with Attach().
// kNotFound when there is no such file.
[[nodiscard]] Result<UniqueFd> CloneMount(int dirfd, const std::string& name);
[[nodiscard]] Result<> Attach(const UniqueFd& mount_fd, const std::string& target);

[[nodiscard]] Result<> MountTmpfs(const std::string& target, unsigned long flags,
                                  const char* options);

// Makes the mount on top at `target` read-only; what else it forbids stays forbidden.
[[nodiscard]] Result<> MakeReadOnly(const std::string& target);

// Covers a folder with an empty read-only tmpfs; what is no folder is left alone.
[[nodiscard]] Result<> HideFolder(const std::string& folder);

// Another way to the folder `dirfd`, which is where a mount begins: files can be made through it
// also where that mount is read-only.
[[nodiscard]] Result<UniqueFd> WritableClone(int dirfd, const std::string& name);

// Of a mount copy, before it is attached: it is read-only, without setuid programs and devices, and
// what is mounted on it shows nowhere else.
[[nodiscard]] Result<> Restrict(const UniqueFd& mount_fd, const std::string& name);

// Makes the mount that the folder `dirfd` (may be O_PATH) lies in private, so that what is mounted
// on the folder shows in no other mount namespace. `name` is for the error.
[[nodiscard]] Result<> KeepMountsHere(int dirfd, const std::string& name);

// One line of /proc/self/mountinfo.
struct MountEntry {
  std::uint64_t id = 0;
  std::string device;  // of the file system: "0:21"
  std::string root;    // of the file system: what of it is mounted
  std::string point;   // where
  std::string type;
  std::string options;  // of the file system, as they stand there, still escaped
};

[[nodiscard]] Result<std::vector<MountEntry>> ReadMounts();

// A word of such a line, in which space, tab, newline and backslash stand as \ooo.
[[nodiscard]] std::string UnescapeMountWord(std::string_view word);

// The lines of a mountinfo file (proc_pid_mountinfo(5)); lines that it cannot read are left out.
[[nodiscard]] std::vector<MountEntry> ParseMounts(const std::string& text);

// The number of the mount that the file `fd` lies in, and whether the mount begins with it.
struct MountOfFile {
  std::uint64_t id = 0;
  bool begins = false;
};

[[nodiscard]] Result<MountOfFile> FindMount(int fd, const std::string& name);

// Whether a path lookup finds this mount: no other covers it or a folder above it.
[[nodiscard]] bool IsOnTop(const MountEntry& mount);

}  // namespace cgpu

#endif  // CGPU_KERNEL_MOUNTS_H_
