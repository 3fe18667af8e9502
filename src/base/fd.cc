#include "base/fd.h"

#include <unistd.h>

#include <cerrno>

namespace cgpu {

void UniqueFd::reset(int fd) noexcept {
  const int old = std::exchange(fd_, fd);
  if (old >= 0) {
    const int saved = errno;
    close(old);
    errno = saved;
  }
}

}  // namespace cgpu
