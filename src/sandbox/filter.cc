#include "sandbox/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "sandbox/bpf.h"

namespace cgpu::sandbox {
namespace {

constexpr auto kArchOffset = static_cast<std::uint32_t>(offsetof(seccomp_data, arch));
constexpr auto kNrOffset = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
// Returns the offset of an argument's low half; the high half lies 4 bytes behind it.
constexpr std::uint32_t ArgumentOffset(std::uint32_t index) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8 * index;
}
constexpr std::uint32_t kRequestOffset = ArgumentOffset(1);  // ioctl takes an unsigned int
constexpr std::uint32_t kMmapProtOffset = ArgumentOffset(2);
constexpr std::uint32_t kMmapFlagsOffset = ArgumentOffset(3);  // the high half has no flags
constexpr std::uint32_t kMmapFileOffset = ArgumentOffset(5);
constexpr std::uint32_t kMremapFlagsOffset = ArgumentOffset(3);

}  // namespace

std::vector<sock_filter> BuildGpuFilter() {
  // The starts of the program's sections.
  enum : std::uint8_t {
    kOther = 5,
    kIoctl = 10,
    kMmap = 16,
    kMremap = 26,
    kKill = 28,
    kAllow,
    kRefuse,
    kAbsent,
    kNotify
  };
  std::vector<sock_filter> program;
  const auto add = [&](std::uint16_t code, std::uint32_t k) { program.push_back({code, 0, 0, k}); };
  // Adds a jump to one place or the other; kNext: the instruction that follows.
  constexpr std::uint8_t kNext = 0;
  const auto jump = [&](std::uint16_t code, std::uint32_t k, std::uint8_t if_true,
                        std::uint8_t if_false) {
    const auto here = static_cast<std::uint8_t>(program.size() + 1);
    const auto distance = [&](std::uint8_t to) {
      return static_cast<std::uint8_t>(to == kNext ? 0 : to - here);
    };
    program.push_back({code, distance(if_true), distance(if_false), k});
  };
  add(bpf::kLoad, kArchOffset);
  jump(bpf::kIfEqual, AUDIT_ARCH_X86_64, kNext, kKill);
  add(bpf::kLoad, kNrOffset);
  jump(bpf::kIfEqual, SYS_ioctl, kIoctl, kNext);
  jump(bpf::kIfEqual, SYS_mmap, kMmap, kOther);
  // kOther
  jump(bpf::kIfAtLeast, bpf::kX32Bit, kKill, kNext);
  jump(bpf::kIfEqual, SYS_io_uring_setup, kRefuse, kNext);
  jump(bpf::kIfEqual, SYS_remap_file_pages, kAbsent, kNext);
  jump(bpf::kIfEqual, SYS_mremap, kMremap, kNext);
  add(bpf::kReturn, SECCOMP_RET_ALLOW);
  // kIoctl
  add(bpf::kLoad, kRequestOffset);
  jump(bpf::kIfAnyBit, 0x3fff0000U, kNotify, kNext);  // it has a size
  jump(bpf::kIfAnyBit, 0x0000ff00U, kNext, kNotify);  // it has no type
  add(bpf::kAnd, 0xff);
  jump(bpf::kIfEqual, kWaitOpenComplete, kNotify, kNext);
  jump(bpf::kIfEqual, kLocklessDiagnostic, kNotify, kAllow);
  // kMmap: shared, of a file, readable and writable, at an offset of a page or more.
  add(bpf::kLoad, kMmapFlagsOffset);
  jump(bpf::kIfAnyBit, MAP_SHARED, kNext, kAllow);
  jump(bpf::kIfAnyBit, MAP_ANONYMOUS, kAllow, kNext);
  add(bpf::kLoad, kMmapProtOffset);
  add(bpf::kAnd, PROT_READ | PROT_WRITE);
  jump(bpf::kIfEqual, PROT_READ | PROT_WRITE, kNext, kAllow);
  add(bpf::kLoad, kMmapFileOffset + 4);
  jump(bpf::kIfEqual, 0, kNext, kNotify);
  add(bpf::kLoad, kMmapFileOffset);
  jump(bpf::kIfAtLeast, kPage, kNotify, kAllow);
  // kMremap: to an address that the caller chooses.
  add(bpf::kLoad, kMremapFlagsOffset);
  jump(bpf::kIfAnyBit, kMremapTo, kNotify, kAllow);
  // kKill and the others.
  add(bpf::kReturn, SECCOMP_RET_KILL_PROCESS);
  add(bpf::kReturn, SECCOMP_RET_ALLOW);
  add(bpf::kReturn, SECCOMP_RET_ERRNO | EPERM);
  add(bpf::kReturn, SECCOMP_RET_ERRNO | ENOSYS);
  add(bpf::kReturn, SECCOMP_RET_USER_NOTIF);
  return program;
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

}  // namespace cgpu::sandbox
