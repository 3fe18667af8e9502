#include "run/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/fd.h"

namespace cgpu {

Result<std::vector<int>> TakeInheritedDescriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) != fd) {
      return ErrnoError(Code::kUnavailable, errno, "cannot open /dev/null");
    }
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc/self/fd"), closedir);
  if (dir == nullptr) {
    return ErrnoError(Code::kUnavailable, errno, "cannot read /proc/self/fd");
  }
  std::vector<int> inherited;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const int fd = std::atoi(entry->d_name);          // NOLINT(cert-err34-c): "." and ".." give 0
    if (entry->d_name[0] != '.' && fd != dirfd(dir.get())) {
      inherited.push_back(fd);
    }
  }
  return inherited;
}

void CloseAllBut(std::vector<int> keep) {
  std::ranges::sort(keep);
  unsigned from = 0;
  for (const int fd : keep) {
    if (fd < 0) {
      continue;
    }
    if (static_cast<unsigned>(fd) > from) {
      close_range(from, static_cast<unsigned>(fd) - 1, 0);
    }
    from = static_cast<unsigned>(fd) + 1;
  }
  close_range(from, UINT_MAX, 0);
}

void ReleaseInherited(const std::vector<int>& inherited) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : inherited) {
    if (fd > STDERR_FILENO) {
      close(fd);
    } else if (fd != STDERR_FILENO && null.valid()) {
      dup2(null.get(), fd);
    }
  }
}

}  // namespace cgpu
