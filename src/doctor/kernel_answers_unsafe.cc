#include <fcntl.h>
#include <linux/filter.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/child.h"
#include "base/fd.h"
#include "doctor/kernel_answers.h"
#include "os/newer_seccomp.h"

namespace cgpu::doctor {
namespace {

constexpr unsigned kPidfdThreadFlag = O_EXCL;  // PIDFD_THREAD, Linux 6.9

// Returns 0 for a descriptor, which is closed, or the errno.
int Opens(long fd) {
  const int error = errno;
  return UniqueFd(static_cast<int>(fd)).valid() ? 0 : error;
}

// A call with arguments that no kernel accepts: one that knows it complains of just those. Returns
// 0 then, or the errno.
int Knows(long result, int complaint) {
  return result == 0 || errno == complaint ? 0 : errno;
}

int AskForSizes() {
  seccomp_notif_sizes sizes{};
  if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) {
    return errno;
  }
  const bool known = sizes.seccomp_notif <= sizeof(seccomp_notif) &&
                     sizes.seccomp_notif_resp <= sizeof(seccomp_notif_resp);
  return known ? 0 : E2BIG;
}

int AskForAction() {
  const unsigned action = SECCOMP_RET_USER_NOTIF;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? 0 : errno;
}

// Makes the attempt in a process of its own, which ends with the errno, so that no effect stays.
int InChild(int (*attempt)()) {
  const auto child = Fork();
  if (!child.ok()) {
    return child.error().sys_errno;
  }
  if (*child == 0) {
    _exit(attempt());
  }
  int status = 0;
  (void)TEMP_FAILURE_RETRY(waitpid(*child, &status, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

int EnterUserNamespace() {
  return unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

// Puts this process under a filter that allows everything. Returns its listener, or -1 with errno.
long MakeListener() {
  sock_filter allow{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  const sock_fprog program{1, &allow};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
             ? -1
             : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                       &program);
}

int TryListener() {
  return Opens(MakeListener());
}

int TrySyncWakeUp() {
  const UniqueFd listener(static_cast<int>(MakeListener()));
  return listener.valid() && ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                                   SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) == 0
             ? 0
             : errno;
}

}  // namespace

int AskKernel(Question question) {
  constexpr unsigned kFlags =
      SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  switch (question) {
    case Question::kSeccompNotify:
      return AskForAction();
    case Question::kSeccompSizes:
      return AskForSizes();
    case Question::kWaitKillable:  // seccomp(2): flags are looked at before the program
      return Knows(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, nullptr), EFAULT);
    case Question::kListener:
      return InChild(TryListener);
    case Question::kSyncWakeUp:
      return InChild(TrySyncWakeUp);
    case Question::kPidfdOpen:
      return Opens(syscall(SYS_pidfd_open, getpid(), 0));
    case Question::kPidfdGetfd:
      return Knows(syscall(SYS_pidfd_getfd, -1, 0, 0), EBADF);
    case Question::kPidfdThread:
      return Opens(syscall(SYS_pidfd_open, getpid(), kPidfdThreadFlag));
    case Question::kKcmp:
      return Knows(syscall(SYS_kcmp, getpid(), getpid(), KCMP_VM, 0, 0), 0);
    case Question::kOpenTree:
      return Knows(syscall(SYS_open_tree, -1, "", AT_EMPTY_PATH), EBADF);
    case Question::kMountSetattr:
      return Knows(syscall(SYS_mount_setattr, -1, "", AT_EMPTY_PATH, nullptr, 0), EINVAL);
    case Question::kCloseRange:  // from a number behind the last one
      return Knows(syscall(SYS_close_range, 2, 1, 0), EINVAL);
    case Question::kInotify:
      return Opens(inotify_init1(IN_CLOEXEC));
    case Question::kUserNamespace:
      break;
  }
  return InChild(EnterUserNamespace);
}

}  // namespace cgpu::doctor
