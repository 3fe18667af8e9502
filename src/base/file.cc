#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>

namespace cgpu {
namespace {

Code CodeOf(int sys_errno) {
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EACCES:
    case EPERM:
      return Code::kPermission;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

Result<UniqueFd> OpenFile(const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd.valid()) {
    return ErrnoError(CodeOf(errno), errno, "cannot open " + path);
  }
  return fd;
}

Result<std::string> ReadFile(const std::string& path, std::size_t limit) {
  CGPU_ASSIGN_OR_RETURN(const auto fd, OpenFile(path, O_RDONLY));
  return ReadAll(fd.get(), path, limit);
}

Result<std::string> ReadAll(int fd, const std::string& name, std::size_t limit) {
  std::string content;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = TEMP_FAILURE_RETRY(read(fd, buffer, sizeof(buffer)))) > 0) {
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit) {
      return Error{Code::kExhausted, 0, name + " is longer than expected", {}};
    }
  }
  if (n < 0) {
    return ErrnoError(CodeOf(errno), errno, "cannot read " + name);
  }
  return content;
}

Result<> WriteFile(const std::string& path, std::string_view content, unsigned mode) {
  CGPU_ASSIGN_OR_RETURN(auto fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, mode));
  return WriteAll(fd.get(), content);
}

Result<> ReplaceFile(const std::string& path, std::string_view content, unsigned mode,
                     bool durable) {
  const std::string part = path + ".new";
  CGPU_ASSIGN_OR_RETURN(auto fd, OpenFile(part, O_WRONLY | O_CREAT | O_TRUNC, mode));
  CGPU_TRY(WriteAll(fd.get(), content));
  if (fchmod(fd.get(), mode) != 0 || (durable && fsync(fd.get()) != 0) ||
      rename(part.c_str(), path.c_str()) != 0) {
    return ErrnoError(Code::kUnavailable, errno, "cannot write " + path);
  }
  return {};
}

Result<> WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(write(fd, bytes.data(), bytes.size()));
    if (n < 0) {
      return ErrnoError(CodeOf(errno), errno, "cannot write");
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> OwnProgram() {
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
  if (n <= 0 || n == static_cast<ssize_t>(sizeof(self))) {
    return ErrnoError(Code::kInternal, errno, "cannot read /proc/self/exe");
  }
  std::string_view path(self, static_cast<std::size_t>(n));
  constexpr std::string_view kReplaced = " (deleted)";
  if (path.ends_with(kReplaced)) {
    path.remove_suffix(kReplaced.size());
  }
  return std::string(path);
}

bool IsAtOrBelow(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (folder == "/" || path.size() == folder.size() || path[folder.size()] == '/');
}

Result<std::vector<std::string>> NamesIn(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr) {
    return ErrnoError(CodeOf(errno), errno, "cannot read " + folder);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) {
    return ErrnoError(CodeOf(errno), errno, "cannot read " + folder);
  }
  std::erase_if(names, [](const std::string& name) { return name == "." || name == ".."; });
  std::ranges::sort(names);
  return names;
}

Result<> MakeDirectories(const std::string& path, unsigned mode) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (!prefix.empty() && mkdir(prefix.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoError(CodeOf(errno), errno, "cannot create directory " + prefix);
    }
    if (end == std::string::npos) {
      return {};
    }
  }
}

}  // namespace cgpu
