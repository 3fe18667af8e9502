#include "install/file_change.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace cgpu::install {
namespace {

Error Failed(const std::string& what) {
  const int sys_errno = errno;
  const bool permission = sys_errno == EACCES || sys_errno == EPERM;
  Error error = ErrnoError(permission ? Code::kPermission : Code::kUnavailable, sys_errno, what);
  if (permission) {
    error.hint = geteuid() == 0 ? "not even root may; see `lsattr`, mounts and security modules"
                                : "run as root";
  }
  return error;
}

std::string FolderOf(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == 0 ? "/" : file.substr(0, slash);
}

std::string NameOf(const std::string& file) {
  return file.substr(file.rfind('/') + 1);
}

// Returns the folder for files that the engine must not read.
std::string SideFolderOf(const std::string& file) {
  const std::string folder = FolderOf(file);
  const std::string above = FolderOf(folder);
  struct stat inner{};
  struct stat outer{};
  const bool same_disk = stat(folder.c_str(), &inner) != 0 ||
                         (stat(above.c_str(), &outer) == 0 && inner.st_dev == outer.st_dev);
  return folder.ends_with(".d") && same_disk ? above : folder;
}

// Copies extended attributes, access lists and labels among them. Leaves out what the file system
// or the caller cannot set.
void CopyAttributes(const std::string& from, int to) {
  std::vector<char> names(XATTR_LIST_MAX);
  const ssize_t size = listxattr(from.c_str(), names.data(), names.size());
  for (ssize_t at = 0; at < size;) {
    const char* const name = names.data() + at;
    std::vector<char> value(XATTR_SIZE_MAX);
    const ssize_t length = getxattr(from.c_str(), name, value.data(), value.size());
    if (length >= 0) {
      (void)fsetxattr(to, name, value.data(), static_cast<std::size_t>(length), 0);
    }
    at += static_cast<ssize_t>(std::strlen(name)) + 1;
  }
}

Result<> Fill(int fd, const std::string& temporary, const std::string& content,
              const std::string& like) {
  struct stat status{};
  const bool known = stat(like.c_str(), &status) == 0;
  if (known && fchown(fd, status.st_uid, status.st_gid) != 0) {
    return Failed("cannot give " + temporary + " the owner of " + like);
  }
  if (fchmod(fd, known ? status.st_mode & 07777 : 0644) != 0) {
    return Failed("cannot set the mode of " + temporary);
  }
  if (known) {
    CopyAttributes(like, fd);
  }
  CGPU_TRY(WriteAll(fd, content));
  if (fsync(fd) != 0) {
    return Failed("cannot write " + temporary);
  }
  return {};
}

Result<> MakeFolder(const std::string& folder) {
  if (const auto made = MakeDirectories(folder); !made.ok()) {
    errno = made.error().sys_errno;
    return Failed("cannot create " + folder);
  }
  return {};
}

Result<> SyncFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return Failed("cannot write " + folder);
  }
  return {};
}

}  // namespace

Result<std::string> RealFile(const std::string& path) {
  std::string absolute = path;
  if (!path.starts_with('/')) {
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof(folder)) == nullptr) {
      return Failed("cannot tell the current folder");
    }
    absolute = std::string(folder) + "/" + path;
  }
  char real[PATH_MAX];
  if (realpath(absolute.c_str(), real) != nullptr) {
    struct stat status{};
    if (stat(real, &status) != 0) {
      return Failed("cannot look at " + path);
    }
    if (!S_ISREG(status.st_mode)) {
      return Error{Code::kInvalid, 0, path + " is not a regular file", {}};
    }
    return std::string(real);
  }
  if (errno != ENOENT) {
    return Failed("cannot find " + path);
  }
  struct stat link{};
  if (lstat(absolute.c_str(), &link) == 0) {
    return Error{Code::kInvalid, 0, path + " is a link to a file that does not exist", {}};
  }
  // A link may lead to the folder too; missing parts of it are made where its name says.
  const std::string folder = FolderOf(absolute);
  return realpath(folder.c_str(), real) != nullptr
             ? (std::strcmp(real, "/") == 0 ? "" : std::string(real)) + "/" + NameOf(absolute)
             : absolute;
}

Result<std::optional<std::string>> ReadIfThere(const std::string& file) {
  auto content = ReadFile(file, kMaxFile);
  if (content.ok()) {
    return std::optional(std::move(*content));
  }
  if (content.error().code == Code::kNotFound) {
    return std::optional<std::string>();
  }
  Error error = content.error();
  error.hint = error.code == Code::kPermission ? "run as root" : error.hint;
  return error;
}

std::string OriginalOf(const std::string& file) {
  const std::string folder = SideFolderOf(file);
  return (folder == "/" ? "" : folder) + "/" + NameOf(file) + ".before-cgpu";
}

Result<UniqueFd> LockFolderOf(const std::string& file) {
  const std::string folder = FolderOf(file);
  CGPU_TRY(MakeFolder(folder));
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return Failed("cannot open " + folder);
  }
  while (flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return Failed("cannot lock " + folder);
    }
  }
  return fd;
}

Result<> ReplaceFile(const std::string& file, const std::string& content, const std::string& like) {
  // One name is enough: under the lock nobody else uses it, and a file that a killed run left is
  // not in the way.
  CGPU_TRY(MakeFolder(FolderOf(file)));
  const std::string folder = SideFolderOf(file);
  const std::string temporary = folder + "/." + NameOf(file) + ".new-cgpu";
  CGPU_TRY(DeleteFile(temporary));
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return Failed("cannot write to " + folder);
  }
  if (auto filled = Fill(fd.get(), temporary, content, like.empty() ? file : like); !filled.ok()) {
    (void)unlink(temporary.c_str());
    return filled;
  }
  if (rename(temporary.c_str(), file.c_str()) != 0) {
    const Error error = Failed("cannot replace " + file);
    (void)unlink(temporary.c_str());
    return error;
  }
  return SyncFolder(FolderOf(file));
}

Result<> DeleteFile(const std::string& file) {
  if (unlink(file.c_str()) != 0) {
    return errno == ENOENT ? Result<>() : Failed("cannot remove " + file);
  }
  return SyncFolder(FolderOf(file));
}

}  // namespace cgpu::install
