#include "os/namespaces.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/file.h"

namespace cgpu {
namespace {

Error CannotUnshare(int sys_errno, bool user) {
  Error error = ErrnoError(Code::kPermission, sys_errno, "cannot create namespaces");
  if (sys_errno == EINVAL || sys_errno == ENOSYS) {
    error.code = Code::kUnsupported;
    error.hint = "the kernel must have user, mount and pid namespaces";
  } else if (sys_errno == ENOSPC || sys_errno == EUSERS) {
    error.code = Code::kExhausted;
    error.hint = "see /proc/sys/user/max_*_namespaces, or run as root";
  } else if (user) {
    error.hint = "this machine does not let ordinary users create user namespaces: run as root";
  } else {
    error.hint = "root needs CAP_SYS_ADMIN here; inside a container it usually has not";
  }
  return error;
}

class DumpableGuard {
 public:
  DumpableGuard() : old_(prctl(PR_GET_DUMPABLE)) { prctl(PR_SET_DUMPABLE, 1); }
  DumpableGuard(const DumpableGuard&) = delete;
  DumpableGuard& operator=(const DumpableGuard&) = delete;
  ~DumpableGuard() { prctl(PR_SET_DUMPABLE, old_ == 1 ? 1 : 0); }

 private:
  int old_;
};

// An ordinary user can write gid_map only once setgroups(2) is off (user_namespaces(7)).
Result<> MapToSelf(uid_t uid, gid_t gid) {
  // The files in /proc/self belong to root while the process is not dumpable. A change of its uid,
  // or a program that cannot be read, makes it so.
  const DumpableGuard own_proc_files;
  CGPU_TRY(WriteFile("/proc/self/setgroups", "deny"));
  const std::string u = std::to_string(uid);
  const std::string g = std::to_string(gid);
  CGPU_TRY(WriteFile("/proc/self/uid_map", u + " " + u + " 1"));
  return WriteFile("/proc/self/gid_map", g + " " + g + " 1");
}

}  // namespace

Result<pid_t> ForkIntoNamespaces(int extra_flags) {
  const bool user = geteuid() != 0;
  const unsigned long flags =
      static_cast<unsigned long>(CLONE_NEWNS | extra_flags | (user ? CLONE_NEWUSER : 0) | SIGCHLD);
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, nullptr, nullptr, 0UL));
  if (pid < 0) {
    return CannotUnshare(errno, user);
  }
  return pid;
}

Result<> SetUpNamespaces(uid_t uid, gid_t gid) {
  if (uid != 0) {
    CGPU_TRY(MapToSelf(uid, gid));
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot make the mounts private");
  }
  return {};
}

Result<> EnterPrivateNamespaces(int extra_flags) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWNS | extra_flags | (uid != 0 ? CLONE_NEWUSER : 0)) != 0) {
    return CannotUnshare(errno, uid != 0);
  }
  return SetUpNamespaces(uid, gid);
}

}  // namespace cgpu
