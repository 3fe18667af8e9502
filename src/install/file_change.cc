#include "install/file_change.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"

namespace cgpu::install {
namespace {

namespace fs = std::filesystem;

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

Result<UniqueFd> OpenFolderOf(const fs::path& file) {
  const std::string folder = file.parent_path();
  if (const auto made = MakeDirectories(folder); !made.ok()) {
    errno = made.error().sys_errno;
    return Failed("cannot create " + folder);
  }
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() ? Result<UniqueFd>(std::move(fd)) : Failed("cannot open " + folder);
}

Result<> SyncFolderOf(const std::string& file) {
  CGPU_ASSIGN_OR_RETURN(const auto fd, OpenFolderOf(file));
  return fsync(fd.get()) == 0 ? Result<>() : Failed("cannot write the folder of " + file);
}

}  // namespace

Result<std::string> RealFile(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return Error{Code::kInvalid, 0, path + " is not a regular file", {}};
  }
  std::error_code ignored;
  if (status.type() == fs::file_type::not_found &&
      fs::is_symlink(fs::symlink_status(path, ignored))) {
    return Error{Code::kInvalid, 0, path + " is a link to a file that does not exist", {}};
  }
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  errno = error.value();
  return error ? Result<std::string>(Failed("cannot find " + path)) : real.string();
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

Result<UniqueFd> LockFolderOf(const std::string& file) {
  CGPU_ASSIGN_OR_RETURN(auto fd, OpenFolderOf(file));
  if (TEMP_FAILURE_RETRY(flock(fd.get(), LOCK_EX)) != 0) {
    return Failed("cannot lock the folder of " + file);
  }
  return fd;
}

Result<> ReplaceFile(const std::string& file, const std::string& content, const std::string& like) {
  // One name is enough: under the lock nobody else uses it, and a file that a killed run left is
  // not in the way. Engines read all files of a folder whose name ends in ".d".
  const fs::path folder = fs::path(file).parent_path();
  const std::string temporary = (folder.extension() == ".d" ? folder.parent_path() : folder) /
                                ("." + fs::path(file).filename().string() + ".new-cgpu");
  (void)unlink(temporary.c_str());
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return Failed("cannot write " + temporary);
  }
  auto done = Fill(fd.get(), temporary, content, like);
  if (done.ok() && rename(temporary.c_str(), file.c_str()) != 0) {
    done = Failed("cannot replace " + file);
  }
  if (!done.ok()) {
    (void)unlink(temporary.c_str());
    return done;
  }
  return SyncFolderOf(file);
}

Result<> DeleteFile(const std::string& file) {
  if (unlink(file.c_str()) != 0) {
    return errno == ENOENT ? Result<>() : Failed("cannot remove " + file);
  }
  return SyncFolderOf(file);
}

}  // namespace cgpu::install
