#include "runtime/others_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "rm/escape_table.h"
#include "rm/nv_escape.h"
#include "rm/nv_structs.h"
#include "rm/uvm_table.h"
#include "sandbox/bpf.h"

namespace cgpu {
namespace {

namespace bpf = sandbox::bpf;

// Bits of a request's number: asm-generic/ioctl.h.
constexpr std::uint32_t kNrMask = 0xff;
constexpr std::uint32_t kTypeAndSize = 0x3fffff00;
constexpr std::uint32_t kSizeShift = 16;
constexpr std::uint32_t kMostSize = 0x3fff;
// Requests of any file, from linux/fs.h; everything else with a zero type byte and no size is
// nvidia-uvm's.
constexpr std::uint32_t kFibmap = 1;
constexpr std::uint32_t kFigetbsz = 2;
// ioctl's numbers on i386 and, with bpf::kX32Bit, x32: arch/x86/entry/syscalls.
constexpr std::uint32_t kIoctlOfI386 = 54;
constexpr std::uint32_t kIoctlOfX32 = 514;

// Sizes of one escape number.
struct Sizes {
  std::uint32_t nr;
  std::uint32_t first;
  std::uint32_t last;

  friend constexpr auto operator<=>(const Sizes&, const Sizes&) = default;
};

// Sizes in which an escape does nothing to what RM keeps, with the device that has the same number.
// Sources: kernel-open/nvidia/nv.c and src/nvidia/arch/nvalloc/unix/src/escape.c in 535.288.01 to
// 595.45.04; linux/if_tun.h, drm/i915_drm.h. An administrator has CAP_SYS_ADMIN on the host.
constexpr std::array kHarmless = {
    // A list without room for one GPU is refused with EINVAL. TUNSETNOCSUM and others.
    Sizes{rm::NV_ESC_CARD_INFO, 0, sizeof(rm::nv_ioctl_card_info_t) - 1},
    // Keeps a GPU open for as long as the file is. TUNSETSNDBUF.
    Sizes{rm::NV_ESC_ATTACH_GPUS_TO_FD, 4, 4},
    // Reads one register; 595 takes 8 bytes alone. TUNATTACHFILTER.
    Sizes{rm::NV_ESC_QUERY_DEVICE_INTR, 9, kMostSize},
    // Asks whether the caller is an administrator, before anything else. TUNSETVNETHDRSZ.
    Sizes{rm::NV_ESC_SET_NUMA_STATUS, 4, 4},
    // The same, before 580 in any size. It answers in the first 8 bytes, so less are not harmless:
    // the driver then writes beyond its buffer. DRM_IOCTL_I915_GEM_SET_DOMAIN.
    Sizes{rm::NV_ESC_RM_LOCKLESS_DIAGNOSTIC, 8, kMostSize},
};

// Adds the sizes that a driver takes by this rule. Those between two multiples come with them: it
// takes one range to say so.
void AddSizes(std::uint32_t nr, const rm::SizeRule& rule, std::vector<Sizes>& sizes) {
  switch (rule.kind) {
    case rm::SizeRule::Kind::kEither:
      sizes.push_back({nr, rule.b, rule.b});
      [[fallthrough]];
    case rm::SizeRule::Kind::kExact:
      sizes.push_back({nr, rule.a, rule.a});
      break;
    case rm::SizeRule::Kind::kMultiple:
      sizes.push_back({nr, 1, kMostSize});
      break;
    case rm::SizeRule::Kind::kAtLeast:
      sizes.push_back({nr, rule.a, kMostSize});
      break;
    case rm::SizeRule::Kind::kAny:
      sizes.push_back({nr, 0, kMostSize});
      break;
    case rm::SizeRule::Kind::kNever:
      break;
  }
}

// Takes the harmless sizes out of all others.
std::vector<Sizes> WithoutHarmless(std::vector<Sizes> sizes) {
  for (const Sizes& harmless : kHarmless) {
    std::vector<Sizes> left;
    for (const Sizes& one : sizes) {
      if (one.nr != harmless.nr || one.last < harmless.first || harmless.last < one.first) {
        left.push_back(one);
        continue;
      }
      if (one.first < harmless.first) {
        left.push_back({one.nr, one.first, harmless.first - 1});
      }
      if (harmless.last < one.last) {
        left.push_back({one.nr, harmless.last + 1, one.last});
      }
    }
    sizes = std::move(left);
  }
  return sizes;
}

// Returns the sizes that are refused, in ascending order of number and size. Ranges may overlap.
std::vector<Sizes> FindRefused() {
  std::vector<Sizes> sizes;
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    for (const rm::Branch branch : rm::kBranches) {
      AddSizes(row.nr, row.Rule(branch), sizes);
    }
  }
  sizes = WithoutHarmless(std::move(sizes));
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return sizes;
}

const std::vector<Sizes>& Refused() {
  static const std::vector<Sizes> refused = FindRefused();
  return refused;
}

constexpr sock_filter kRefuse = {bpf::kReturn, 0, 0, SECCOMP_RET_ERRNO | ENODEV};
constexpr sock_filter kLetPass = {bpf::kReturn, 0, 0, SECCOMP_RET_ALLOW};

using Program = std::vector<sock_filter>;

void Add(Program& program, std::initializer_list<sock_filter> steps) {
  program.insert(program.end(), steps);
}

// Lets every call but ioctl pass. Jumps count instructions from the next one.
void AddCalls(Program& program) {
  constexpr auto kArch = static_cast<std::uint32_t>(offsetof(seccomp_data, arch));
  constexpr auto kNr = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  Add(program, {{bpf::kLoad, 0, 0, kArch},
                {bpf::kIfEqual, 0, 3, AUDIT_ARCH_I386},
                {bpf::kLoad, 0, 0, kNr},
                {bpf::kIfEqual, 6, 0, kIoctlOfI386},
                kLetPass,
                {bpf::kLoad, 0, 0, kNr},
                {bpf::kAnd, 0, 0, ~bpf::kX32Bit},
                {bpf::kIfEqual, 2, 0, SYS_ioctl},
                {bpf::kIfEqual, 1, 0, kIoctlOfX32},
                kLetPass});
}

}  // namespace

bool IsRefusedToOthers(std::uint32_t request) {
  if ((request & kTypeAndSize) == 0) {
    const std::uint32_t number = request & kNrMask;
    return number != kFibmap && number != kFigetbsz;
  }
  if (rm::FindUvm(request) != nullptr ||
      (request >= rm::kUvmTestFirst && request <= rm::kUvmTestLast)) {
    return true;
  }
  const std::uint32_t nr = request & kNrMask;
  const std::uint32_t size = request >> kSizeShift & kMostSize;
  return std::ranges::any_of(Refused(), [&](const Sizes& one) {
    return one.nr == nr && one.first <= size && size <= one.last;
  });
}

std::vector<sock_filter> BuildOthersFilter() {
  // The kernel looks at the low half alone.
  constexpr auto kRequestAt =
      static_cast<std::uint32_t>(offsetof(seccomp_data, args) + sizeof(std::uint64_t));
  Program program;
  AddCalls(program);
  Add(program, {{bpf::kLoad, 0, 0, kRequestAt},
                {bpf::kIfAnyBit, 5, 0, kTypeAndSize},
                {bpf::kAnd, 0, 0, kNrMask},
                {bpf::kIfEqual, 2, 0, kFibmap},
                {bpf::kIfEqual, 1, 0, kFigetbsz},
                kRefuse,
                kLetPass,
                {bpf::kIfAtLeast, 0, 2, rm::kUvmTestFirst},
                {bpf::kIfMore, 1, 0, rm::kUvmTestLast},
                kRefuse});
  for (const rm::UvmRow& row : rm::UvmRows()) {
    if ((row.request & kTypeAndSize) != 0) {
      Add(program, {{bpf::kIfEqual, 0, 1, row.request}, kRefuse});
    }
  }
  // The number in the upper half, the size in the lower one.
  Add(program, {{bpf::kAnd, 0, 0, kNrMask},
                {BPF_ALU | BPF_LSH | BPF_K, 0, 0, kSizeShift},
                {BPF_MISC | BPF_TAX, 0, 0, 0},
                {bpf::kLoad, 0, 0, kRequestAt},
                {BPF_ALU | BPF_RSH | BPF_K, 0, 0, kSizeShift},
                {bpf::kAnd, 0, 0, kMostSize},
                {BPF_ALU | BPF_OR | BPF_X, 0, 0, 0}});
  for (const Sizes& sizes : Refused()) {
    const std::uint32_t nr = sizes.nr << kSizeShift;
    Add(program, {{bpf::kIfAtLeast, 0, 2, nr | sizes.first},
                  {bpf::kIfMore, 1, 0, nr | sizes.last},
                  kRefuse});
  }
  program.push_back(kLetPass);
  return program;
}

Result<> InstallOthersFilter() {
  std::vector<sock_filter> program = BuildOthersFilter();
  const sock_fprog prog{static_cast<unsigned short>(program.size()), program.data()};
  // Without the flag, some kernels make the container's programs slower (Documentation/admin-guide/
  // hw-vuln/spectre.rst): that is for its own profile to ask.
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &prog) == 0) {
    return {};
  }
  const int error = errno;
  return ErrnoError(error == EACCES ? Code::kPermission : Code::kUnsupported, error,
                    "cannot install the seccomp filter that keeps a container off GPU files");
}

}  // namespace cgpu
