#include "kernel/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace cgpu::kernel {
namespace {

constexpr std::uint32_t kX32Bit = 0x40000000U;
constexpr auto kArchOffset = static_cast<std::uint32_t>(offsetof(seccomp_data, arch));
constexpr auto kNrOffset = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
// The low half of the second argument: the kernel's ioctl takes an unsigned int.
constexpr auto kRequestOffset = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8);

sock_filter Statement(std::uint32_t code, std::uint32_t k) {
  return {static_cast<std::uint16_t>(code), 0, 0, k};
}

sock_filter Jump(std::uint32_t code, std::uint32_t k, std::uint8_t if_true, std::uint8_t if_false) {
  return {static_cast<std::uint16_t>(code), if_true, if_false, k};
}

}  // namespace

std::vector<sock_filter> BuildGpuFilter() {
  constexpr std::uint32_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint32_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint32_t kIfAtLeast = BPF_JMP | BPF_JGE | BPF_K;
  constexpr std::uint32_t kIfAnyBit = BPF_JMP | BPF_JSET | BPF_K;
  constexpr std::uint32_t kReturn = BPF_RET | BPF_K;
  return {
      /* 0 */ Statement(kLoad, kArchOffset),
      /* 1 */ Jump(kIfEqual, AUDIT_ARCH_X86_64, 0, 10),  // else kill
      /* 2 */ Statement(kLoad, kNrOffset),
      /* 3 */ Jump(kIfEqual, SYS_ioctl, 3, 0),
      /* 4 */ Jump(kIfAtLeast, kX32Bit, 7, 0),  // kill
      /* 5 */ Jump(kIfEqual, SYS_io_uring_setup, 8, 0),
      /* 6 */ Statement(kReturn, SECCOMP_RET_ALLOW),
      /* 7 */ Statement(kLoad, kRequestOffset),
      /* 8 */ Jump(kIfAnyBit, 0x3fff0000U, 6, 0),  // has a size: notify
      /* 9 */ Jump(kIfAnyBit, 0x0000ff00U, 0, 5),  // has no type: notify
      /* 10 */ Statement(BPF_ALU | BPF_AND | BPF_K, 0xff),
      /* 11 */ Jump(kIfEqual, kWaitOpenComplete, 3, 1),
      /* 12 */ Statement(kReturn, SECCOMP_RET_KILL_PROCESS),
      /* 13 */ Statement(kReturn, SECCOMP_RET_ALLOW),
      /* 14 */ Statement(kReturn, SECCOMP_RET_ERRNO | EPERM),
      /* 15 */ Statement(kReturn, SECCOMP_RET_USER_NOTIF),
  };
}

Result<UniqueFd> InstallGpuFilter(const FilterOptions& options) {
  std::vector<sock_filter> program = BuildGpuFilter();
  sock_fprog prog{static_cast<unsigned short>(program.size()), program.data()};
  unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
  if (options.killable_wait) {
    flags |= SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  }
  const auto fd = static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog));
  if (fd >= 0) {
    return UniqueFd(fd);
  }
  const int error = errno;
  if (error == EBUSY) {
    return Error{Code::kConflict, error,
                 "this process already runs under a seccomp filter with a listener",
                 "run cgpu outside of the container or of the other `cgpu run`"};
  }
  if (error == EINVAL || error == ENOSYS) {
    return Error{Code::kUnsupported, error,
                 options.killable_wait
                     ? "this kernel lacks seccomp user notification with killable waits"
                     : "this kernel lacks seccomp user notification",
                 "cgpu needs Linux 5.10 or later"};
  }
  return ErrnoError(Code::kPermission, error, "cannot install the seccomp filter");
}

}  // namespace cgpu::kernel
