#include "os/ownership.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>

#include <string>

#include "base/fd.h"

namespace cgpu::os {

bool IsInNamespaceOf(int proc_fd, pid_t pid, uid_t user) {
  const std::string path = std::to_string(pid) + "/ns/user";
  UniqueFd space(openat(proc_fd, path.c_str(), O_RDONLY | O_CLOEXEC));
  while (space.valid()) {
    uid_t owner = 0;
    if (ioctl(space.get(), NS_GET_OWNER_UID, &owner) != 0) {
      return false;
    }
    if (owner == user) {
      return true;
    }
    space.reset(ioctl(space.get(), NS_GET_PARENT));  // EPERM: it has no parent, or none that we may
                                                     // see
  }
  return false;
}

}  // namespace cgpu::os
