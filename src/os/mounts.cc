#include "os/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/file.h"

namespace cgpu {
namespace {

// Limit of the mount table, in bytes. A machine with ten thousand mounts has some megabytes of it.
constexpr std::size_t kMountsLimit = 256 << 20;

// Takes the next word of a line; empty at its end.
std::string_view TakeWord(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

}  // namespace

Error MountError(std::string what) {
  const int saved = errno;
  Error error = ErrnoError(saved == EPERM || saved == EACCES ? Code::kPermission : Code::kInternal,
                           saved, std::move(what));
  return error;
}

DirPtr OpenDir(int dirfd, const std::string& name, int flags) {
  const int fd = openat(dirfd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
  DIR* dir = fd < 0 ? nullptr : fdopendir(fd);
  if (dir == nullptr && fd >= 0) {
    close(fd);
  }
  return {dir, closedir};
}

Result<UniqueFd> CloneMount(int dirfd, const std::string& name) {
  UniqueFd fd(open_tree(dirfd, name.c_str(),
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW));
  if (!fd.valid()) {
    Error error = MountError("cannot bind " + name);
    if (error.sys_errno == ENOENT) {
      error.code = Code::kNotFound;
    }
    return error;
  }
  return fd;
}

Result<> Attach(const UniqueFd& mount_fd, const std::string& target) {
  if (move_mount(mount_fd.get(), "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return MountError("cannot mount on " + target);
  }
  return {};
}

Result<> MountTmpfs(const std::string& target, unsigned long flags, const char* options) {
  if (mount("cgpu", target.c_str(), "tmpfs", flags, options) != 0) {
    return MountError("cannot mount a tmpfs on " + target);
  }
  return {};
}

Result<> MakeReadOnly(const std::string& target) {
  struct statvfs fs{};
  if (statvfs(target.c_str(), &fs) != 0) {
    return MountError("cannot ask about " + target);
  }
  // A remount replaces the flags. In a user namespace the flags of inherited mounts are locked, and
  // a remount without them is refused. Access times stay as they are if no flag names them.
  unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY;
  flags |= (fs.f_flag & ST_NOSUID) != 0 ? MS_NOSUID : 0;
  flags |= (fs.f_flag & ST_NODEV) != 0 ? MS_NODEV : 0;
  flags |= (fs.f_flag & ST_NOEXEC) != 0 ? MS_NOEXEC : 0;
  if (mount(nullptr, target.c_str(), nullptr, flags, nullptr) != 0) {
    return MountError("cannot make " + target + " read-only");
  }
  return {};
}

bool IsDirectory(const std::string& path) {
  struct stat st{};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

Result<> HideFolder(const std::string& folder) {
  if (!IsDirectory(folder)) {
    return {};
  }
  auto covered =
      MountTmpfs(folder, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "mode=555,size=4k");
  // The folder may have been removed meanwhile.
  return covered.ok() || !IsDirectory(folder) ? Result<>() : covered;
}

Result<UniqueFd> WritableClone(int dirfd, const std::string& name) {
  UniqueFd fd(open_tree(dirfd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | unsigned{OPEN_TREE_CLOEXEC}));
  struct mount_attr change{};
  change.attr_clr = MOUNT_ATTR_RDONLY;
  if (!fd.valid() || mount_setattr(fd.get(), "", AT_EMPTY_PATH, &change, sizeof(change)) != 0) {
    return MountError("cannot get write access to " + name);
  }
  return fd;
}

Result<> Restrict(const UniqueFd& mount_fd, const std::string& name) {
  struct mount_attr change{};
  change.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  change.propagation = MS_PRIVATE;
  return mount_setattr(mount_fd.get(), "", AT_EMPTY_PATH, &change, sizeof(change)) == 0
             ? Result<>()
             : MountError("cannot restrict the mount of " + name);
}

Result<MountOfFile> FindMount(int fd, const std::string& name) {
  struct statx info{};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) != 0) {
    return MountError("cannot ask about " + name);
  }
  if ((info.stx_mask & STATX_MNT_ID) == 0 ||
      (info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0) {
    return Error{Code::kUnsupported, 0, "the kernel does not tell which mount " + name + " is in",
                 "Linux 5.8 or later is needed"};
  }
  return MountOfFile{info.stx_mnt_id, (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0};
}

Result<> KeepMountsHere(int dirfd, const std::string& name) {
  UniqueFd above;
  for (int at = dirfd;; at = above.get()) {
    CGPU_ASSIGN_OR_RETURN(const auto mount, FindMount(at, name));
    struct stat before{};
    struct stat after{};
    if (mount.begins) {
      struct mount_attr change{};
      change.propagation = MS_PRIVATE;
      if (mount_setattr(at, "", AT_EMPTY_PATH, &change, sizeof(change)) != 0) {
        return MountError("cannot make the mount of " + name + " private");
      }
      return {};
    }
    UniqueFd next(openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!next.valid() || fstat(at, &before) != 0 || fstat(next.get(), &after) != 0) {
      return MountError("cannot find the mount of " + name);
    }
    if (before.st_ino == after.st_ino && before.st_dev == after.st_dev) {  // the root's ".."
      return Error{Code::kConflict, 0, "the root folder is not a mount of its own", {}};
    }
    above = std::move(next);
  }
}

std::string UnescapeMountWord(std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    unsigned value = 0;
    if (word[i] == '\\' && i + 4 <= word.size() &&
        std::from_chars(word.data() + i + 1, word.data() + i + 4, value, 8).ptr ==
            word.data() + i + 4) {
      text += static_cast<char>(value);
      i += 3;
    } else {
      text += word[i];
    }
  }
  return text;
}

std::vector<MountEntry> ParseMounts(const std::string& text) {
  std::vector<MountEntry> mounts;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    MountEntry mount;
    const std::string_view id = TakeWord(line);
    const bool numbered =
        std::from_chars(id.data(), id.data() + id.size(), mount.id).ptr == id.data() + id.size();
    (void)TakeWord(line);  // the parent mount
    mount.device = TakeWord(line);
    mount.root = UnescapeMountWord(TakeWord(line));
    mount.point = UnescapeMountWord(TakeWord(line));
    const std::size_t dash = line.find(" - ");  // after options and a varying number of tags
    if (!numbered || dash == std::string_view::npos) {
      continue;
    }
    line.remove_prefix(dash + 3);
    mount.type = UnescapeMountWord(TakeWord(line));
    (void)TakeWord(line);  // the source
    mount.options = TakeWord(line);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Result<std::vector<MountEntry>> ReadMounts() {
  CGPU_ASSIGN_OR_RETURN(const auto text, ReadFile("/proc/self/mountinfo", kMountsLimit));
  return ParseMounts(text);
}

bool IsOnTop(const MountEntry& mount) {
  struct statx info{};
  return statx(AT_FDCWD, mount.point.c_str(),
               AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_MNT_ID,
               &info) == 0 &&
         (info.stx_mask & STATX_MNT_ID) != 0 && info.stx_mnt_id == mount.id;
}

}  // namespace cgpu
