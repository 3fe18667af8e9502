#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "shim/confine.h"
#include "shim/upgrade.h"

namespace cgpu::shim {
namespace {

// Needed system calls by purpose. Some have conditions, see Program().
constexpr auto kNeeded = std::to_array<int>({
    // notifications, the driver, the tenants' files and memory
    SYS_ioctl,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_kcmp,
    SYS_pread64,
    SYS_pwrite64,
    SYS_statx,
    SYS_fstatfs,
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_newfstatat,
    SYS_lseek,
    SYS_fcntl,
    // waiting
    SYS_poll,
    SYS_ppoll,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_timerfd_settime,
    SYS_futex,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_restart_syscall,
    // the admin socket and the agent's
    SYS_accept4,
    SYS_getsockopt,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_setsockopt,
    // threads and memory
    SYS_clone,
    SYS_clone3,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_madvise,
    SYS_mremap,
    SYS_brk,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_gettid,
    SYS_getpid,
    SYS_getrandom,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_tgkill,
    SYS_prlimit64,
    SYS_prctl,
    SYS_exit,
    SYS_exit_group,
    // files, which are opened, never made or emptied
    SYS_openat,
    // hand-over to another version, and what that needs to begin
    SYS_execveat,
    SYS_memfd_create,
    SYS_dup3,
    SYS_arch_prctl,
    SYS_set_tid_address,
    SYS_readlink,
    SYS_uname,
    SYS_capget,
    SYS_getuid,
    SYS_geteuid,
    SYS_seccomp,
    SYS_eventfd2,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_timerfd_create,
});

Error Wrong(const char* what) {
  return Error{Code::kPermission, 0, std::string("the shim was started with ") + what,
               "start it through `cgpu run`"};
}

}  // namespace

Result<> CheckPrivileges(unsigned user, CapabilityMask capabilities) {
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_GET_DUMPABLE) != 0) {
    return Wrong("a memory that others may read");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoError(Code::kPermission, errno, "cannot give up gaining privileges");
  }
  if (user != 0) {
    return {};
  }
  if (getuid() == 0 || geteuid() == 0) {
    return Wrong("uid 0");
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) {
    return ErrnoError(Code::kInternal, errno, "cannot read the shim's capabilities");
  }
  static_assert((kShimCapabilities | kInterleaverCapabilities) >> 32 == 0);
  const auto wanted = static_cast<std::uint32_t>(capabilities);
  if (sets[0].permitted != wanted || sets[0].effective != wanted || sets[1].permitted != 0 ||
      sets[1].effective != 0) {
    return Wrong("other capabilities than it needs");
  }
  for (int cap = 0; cap <= CAP_LAST_CAP; ++cap) {
    const bool bounded = prctl(PR_CAPBSET_READ, cap) == 1;
    const bool ambient = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1;
    const bool wanted_here = (capabilities & CapabilityBit(cap)) != 0;
    if (bounded != wanted_here || ambient != wanted_here) {
      return Wrong("other capabilities than it needs within reach");
    }
  }
  return {};
}

const std::set<int>& NeededSystemCalls() {
  static const std::set<int> needed(kNeeded.begin(), kNeeded.end());
  return needed;
}

namespace {

// System calls that the helper needs from then on.
constexpr auto kNeededByInterleaver = std::to_array<int>({
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_poll,
    SYS_close,
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_restart_syscall,
    SYS_exit_group,
});

// Returns a program that begins with `conditions`, which find the call's number loaded, and then
// allows `needed` and nothing else.
template <class Calls>
std::vector<sock_filter> ProgramOf(std::initializer_list<sock_filter> conditions,
                                   const Calls& needed) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  program.insert(program.end(), conditions);
  for (const int nr : needed) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(nr), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  return program;
}

Result<> Install(std::vector<sock_filter> program) {
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return ErrnoError(Code::kUnsupported, errno, "cannot confine the shim");
  }
  return {};
}

// Returns the shim's program. The checked arguments are ints: their registers' low halves.
std::vector<sock_filter> Program() {
  return ProgramOf(
      {
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
          BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | O_TRUNC, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
          // One descriptor can be executed. An attacker who controls the shim can put any file
          // there, and gains nothing: what a process may do does not grow with what it executes.
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 4),
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProgramFd, 1, 0),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      },
      kNeeded);
}

}  // namespace

Result<> ConfineSystemCalls(std::set<int>& allowed) {
  if (allowed == NeededSystemCalls()) {
    return {};
  }
  allowed = NeededSystemCalls();
  return Install(Program());
}

Result<> ConfineInterleaver() {
  constexpr auto kControl = _IOWR('F', rm::NV_ESC_RM_CONTROL, rm::NVOS54_PARAMETERS);
  return Install(ProgramOf(
      {
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kControl, 1, 0),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      },
      kNeededByInterleaver));
}

}  // namespace cgpu::shim
