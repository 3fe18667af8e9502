#include "sim/node/node_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace cgpu::sim {
namespace {

constexpr const char* kRoot = "/run/cgpu-sim";
constexpr std::size_t kMaxName = 64;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// Is `fd` still the file at `path`? Another process may have removed the folder in between.
bool IsFileAt(int fd, const std::string& path) {
  struct stat open_file{};
  struct stat named{};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

Error AlreadyRuns(const std::string& name) {
  return Error{
      Code::kConflict, 0, "a simulated node named '" + name + "' runs already",
      "use it, stop it with `cgpu sim stop --name " + name + "`, or choose another --name"};
}

}  // namespace

Error NoSuchNode(const std::string& name) {
  return Error{Code::kNotFound, 0, "there is no simulated node named '" + name + "'",
               "start one with `cgpu sim start --name " + name + " --gpus v100-16g:2`"};
}

Result<NodeDir> NodeDir::Of(const std::string& name) {
  if (name.empty() || name.size() > kMaxName || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), IsNameChar)) {
    return Error{Code::kInvalid, 0, "'" + name + "' cannot be the name of a node",
                 "names have up to 64 letters, digits, '-', '_' or '.', and do not begin with '.'"};
  }
  return NodeDir(name);
}

std::string NodeDir::Path() const {
  return std::string(kRoot) + "/" + name_;
}

Result<UniqueFd> NodeDir::TakeLock(int flags) const {
  const std::string path = Path() + "/lock";
  while (true) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
    if (!fd.valid()) {
      return errno == ENOENT ? NoSuchNode(name_)
                             : ErrnoError(Code::kPermission, errno, "opening " + path);
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? AlreadyRuns(name_)
                                  : ErrnoError(Code::kInternal, errno, "locking " + path);
    }
    if (IsFileAt(fd.get(), path)) {
      return fd;
    }
    if ((flags & O_CREAT) != 0) {
      CGPU_TRY(MakeDirectories(Path(), 0755));
    }
  }
}

Result<UniqueFd> NodeDir::MakeAndLock() const {
  CGPU_TRY(MakeDirectories(Path(), 0755));
  return TakeLock(O_CREAT);
}

Result<UniqueFd> NodeDir::Lock() const {
  return TakeLock(0);
}

Result<> NodeDir::Remove() const {
  // A dead server's mount answers every look at it with an error, but can be taken away.
  while (umount2(Mount().c_str(), MNT_DETACH) == 0) {
  }
  if (errno != EINVAL && errno != ENOENT) {
    return ErrnoError(Code::kPermission, errno, "unmounting " + Mount());
  }
  if (rmdir(Mount().c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(Code::kInternal, errno, "removing " + Mount());
  }
  std::error_code error;
  if (std::filesystem::remove_all(Cards(), error); error) {
    return ErrnoError(Code::kInternal, error.value(), "removing " + Cards());
  }
  for (const std::string& file :
       {ControlSocket(), Description(), CdiFile(), Log(), Path() + "/lock"}) {
    if (unlink(file.c_str()) != 0 && errno != ENOENT) {
      return ErrnoError(Code::kInternal, errno, "removing " + file);
    }
  }
  for (const std::string& folder : {CdiFolder(), Path()}) {
    if (rmdir(folder.c_str()) != 0 && errno != ENOENT) {
      return ErrnoError(Code::kInternal, errno, "removing " + folder);
    }
  }
  return {};
}

}  // namespace cgpu::sim
