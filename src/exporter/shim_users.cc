#include "exporter/shim_users.h"

#include <sys/stat.h>

#include <string>

#include "host/shim_process.h"

namespace cgpu::exporter {

std::optional<uid_t> UserOf(std::uint32_t pid) {
  struct stat st{};
  return stat(("/proc/" + std::to_string(pid)).c_str(), &st) == 0 ? std::optional(st.st_uid)
                                                                  : std::nullopt;
}

bool IsShimUser(uid_t user) {
  return user >= kShimUidFirst && user < kShimUidFirst + kShimUidCount;
}

}  // namespace cgpu::exporter
