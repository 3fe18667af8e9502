#include "os/ownership.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "base/fd.h"

namespace cgpu::os {
namespace {

UniqueFd UserNamespace(int proc_fd, const std::string& process) {
  return UniqueFd(openat(proc_fd, (process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

bool IsInNamespaceOf(int proc_fd, pid_t pid, uid_t user) {
  UniqueFd space = UserNamespace(proc_fd, std::to_string(pid));
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

std::optional<uid_t> OutermostOwner(int proc_fd, pid_t pid, uid_t otherwise) {
  const UniqueFd own = UserNamespace(proc_fd, "self");
  UniqueFd space = UserNamespace(proc_fd, std::to_string(pid));
  struct stat ours{};
  struct stat theirs{};
  if (!space.valid() || fstat(own.get(), &ours) != 0) {
    return std::nullopt;
  }
  uid_t owner = otherwise;
  while (fstat(space.get(), &theirs) == 0 && theirs.st_ino != ours.st_ino) {
    UniqueFd parent(ioctl(space.get(), NS_GET_PARENT));
    if (!parent.valid() || ioctl(space.get(), NS_GET_OWNER_UID, &owner) != 0) {
      return std::nullopt;
    }
    space = std::move(parent);
  }
  return owner;
}

}  // namespace cgpu::os
