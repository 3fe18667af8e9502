#include "os/spare.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>

namespace cgpu::os {
namespace {

// Spare numbers: more than the threads that can have one at a time before they notice.
constexpr rlim_t kSpare = 320;
// Numbers for calls: most descriptors that all threads have open for their calls, and for some that
// wait.
constexpr rlim_t kForCalls = 640;
constexpr rlim_t kMostPart = 4;  // divisor of all numbers, where that gives less

std::atomic<int> first_spare{std::numeric_limits<int>::max()};
std::atomic<int> first_for_calls{std::numeric_limits<int>::max()};

}  // namespace

void KeepSpare() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return;
  }
  const rlim_t all = std::min<rlim_t>(files.rlim_cur, std::numeric_limits<int>::max());
  const rlim_t spare = std::min(kSpare, all / kMostPart);
  first_spare = static_cast<int>(all - spare);
  first_for_calls = static_cast<int>(all - spare - std::min(kForCalls, all / kMostPart));
}

bool IsSpare(int fd) {
  return fd >= first_spare.load(std::memory_order_relaxed);
}

UniqueFd Frugally(UniqueFd fd) {
  if (!fd.valid() || fd.get() < first_for_calls.load(std::memory_order_relaxed)) {
    return fd;
  }
  fd.reset();
  errno = EMFILE;
  return {};
}

}  // namespace cgpu::os
