// The seccomp filter that every tenant runs under. It selects the system calls that reach the shim.
//
// The driver looks at an ioctl's number and size only, never at its type byte or direction bits
// (NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv.c uses _IOC_NR and _IOC_SIZE). It refuses
// numbers without a size, except two, whose size some drivers do not check: they write the answer
// to a buffer of the size that the number has. Where it has none there is no buffer, and the kernel
// crashes. nvidia-uvm compares whole numbers whose type byte is zero (uvm.c). The filter
// therefore hands every ioctl with a size field, a zero type byte or one of the two numbers to the
// shim, on any file. The rest (terminals, sockets) passes directly. i386 and x32 system calls kill
// the process, because their arguments cannot be judged the same way. io_uring_setup is refused, as
// in the default profiles of container engines: registered files would be invisible to the ledger's
// clean-up.
//
// UVM's managed memory comes from mmap, without any ioctl. The filter hands mappings that
// nvidia-uvm could accept to the shim too; the shim charges them and lets the kernel continue. The
// same holds for an mremap to an address that the caller chooses: it can bring a mapping that was
// moved away back to where its offset says. remap_file_pages, which Linux only emulates, does not
// exist for a tenant.
#ifndef CGPU_SANDBOX_FILTER_H_
#define CGPU_SANDBOX_FILTER_H_

#include <linux/filter.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cgpu::sandbox {

struct FilterOptions {
  // Keeps a signal that the tenant handles from interrupting a call that the shim has received, so
  // that none is executed twice (Linux 5.19). Without it the shim keeps a record of the last calls.
  bool killable_wait = true;
};

inline constexpr std::uint64_t kPage = 4096;  // x86-64's

// Numbers that a driver answers in any size: NV_ESC_WAIT_OPEN_COMPLETE in 550
// (kernel-open/nvidia/nv.c), and before 580 NV_ESC_RM_LOCKLESS_DIAGNOSTIC, whose number means
// NV_ESC_RM_NVLOG_CTRL in 535 (nvalloc/unix/src/escape.c).
inline constexpr std::uint32_t kWaitOpenComplete = 0xda;
inline constexpr std::uint32_t kLocklessDiagnostic = 0x5f;
inline constexpr std::array kInAnySize = {kWaitOpenComplete, kLocklessDiagnostic};

// Returns true if the filter hands an ioctl with this request number to the shim. The filter's own
// rule, for decisions and tests.
[[nodiscard]] constexpr bool IsTrapped(std::uint32_t request) {
  return (request & 0x3fff0000U) != 0 || (request & 0xff00U) == 0 ||
         std::ranges::find(kInAnySize, request & 0xffU) != kInAnySize.end();
}

// Returns true if the filter hands such an mmap to the shim. nvidia-uvm takes shared mappings that
// are readable and writable and lie where their offset says (kernel-open/nvidia-uvm/uvm.c,
// uvm_mmap). None lies on the first page.
[[nodiscard]] constexpr bool IsTrappedMmap(std::uint64_t prot, std::uint64_t flags,
                                           std::uint64_t offset) {
  constexpr std::uint64_t kReadWrite = 3;
  constexpr std::uint64_t kShared = 1;
  constexpr std::uint64_t kAnonymous = 0x20;
  return (flags & kShared) != 0 && (flags & kAnonymous) == 0 && (prot & kReadWrite) == kReadWrite &&
         offset >= kPage;
}

// Returns true if the filter hands such an mremap to the shim. Without these flags (MREMAP_FIXED,
// MREMAP_DONTUNMAP) no mapping of nvidia-uvm moves: such a mapping cannot grow (VM_DONTEXPAND,
// uvm_mmap; docs/reference/driver-leans.md).
inline constexpr std::uint32_t kMremapTo = 0x6;
[[nodiscard]] constexpr bool IsTrappedMremap(std::uint64_t flags) {
  return (flags & kMremapTo) != 0;
}

[[nodiscard]] std::vector<sock_filter> BuildGpuFilter();

// Installs the filter on the calling thread and returns the listener (O_CLOEXEC). Needs
// no_new_privs or CAP_SYS_ADMIN in the thread's user namespace. kConflict: the thread already runs
// under a filter with a listener (cgpu inside cgpu). kUnsupported: the kernel is too old.
// kPermission: the kernel refuses for another reason.
[[nodiscard]] Result<UniqueFd> InstallGpuFilter(const FilterOptions& options);

}  // namespace cgpu::sandbox

#endif  // CGPU_SANDBOX_FILTER_H_
