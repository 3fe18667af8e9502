#include "runtime/others_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/fd.h"
#include "base/file.h"
#include "os/testing.h"
#include "rm/escape_table.h"
#include "rm/uvm_table.h"

namespace cgpu {
namespace {

constexpr std::uint32_t kRefused = SECCOMP_RET_ERRNO | ENODEV;

struct Abi {
  std::uint32_t arch;
  int ioctl;
};
// Ways to say ioctl: x86-64's, the same with x32's bit as old kernels take it, x32's and i386's.
constexpr std::array<Abi, 4> kAbis = {{{AUDIT_ARCH_X86_64, 16},
                                       {AUDIT_ARCH_X86_64, 0x40000000 | 16},
                                       {AUDIT_ARCH_X86_64, 0x40000000 | 514},
                                       {AUDIT_ARCH_I386, 54}}};

std::uint32_t Judge(const std::vector<sock_filter>& filter, const Abi& abi, std::uint64_t request) {
  seccomp_data data{};
  data.nr = abi.ioctl;
  data.arch = abi.arch;
  data.args[0] = 3;
  data.args[1] = request;
  const auto verdict = os::Judge(filter, data);
  EXPECT_TRUE(verdict) << "an instruction that is not known here";
  return verdict.value_or(0);
}

// Returns what a driver takes and the filter lets pass all the same, as others_filter.cc says why.
bool MayPass(std::uint32_t request) {
  const std::uint32_t nr = request & 0xffU;
  const std::uint32_t size = request >> 16U & 0x3fffU;
  return (nr == 200 && size < 72) || (nr == 212 && size == 4) || (nr == 213 && size > 8) ||
         (nr == 216 && size == 4) || (nr == 0x5f && size >= 8);
}

// Returns sizes that some driver takes of some escape, their neighbours, and single bits.
std::set<std::uint32_t> SizesTried() {
  std::set<std::uint32_t> sizes = {0, 1, 71, 72, 73, 0x3fff};
  for (std::uint32_t size = 1; size < 1U << 14U; ++size) {
    for (const rm::EscapeRow& row : rm::EscapeRows()) {
      for (const rm::Branch branch : rm::kBranches) {
        const rm::SizeRule rule = row.Rule(branch);
        const bool exact =
            rule.kind == rm::SizeRule::Kind::kExact || rule.kind == rm::SizeRule::Kind::kEither;
        if (exact && rule.Accepts(size)) {
          sizes.insert({size - 1, size, size + 1});
        }
      }
    }
  }
  for (std::uint32_t bit = 0; bit < 14; ++bit) {
    sizes.insert(1U << bit);
  }
  return sizes;
}

TEST(OthersFilter, JudgesAsItsRuleDoesAndRefusesAllThatAnyDriverTakes) {
  const std::vector<sock_filter> filter = BuildOthersFilter();
  std::uint32_t turn = 0;
  std::uint64_t taken = 0;
  for (const std::uint32_t size : SizesTried()) {
    for (std::uint32_t low = 0; low < 1U << 16U; ++low) {
      const std::uint32_t request = (++turn % 4) << 30U | size << 16U | low;
      const std::uint64_t junk = turn % 3 == 0 ? 0xdead0001'00000000 : 0;
      const bool refused = IsRefusedToOthers(request);
      ASSERT_EQ(Judge(filter, kAbis.at(turn % kAbis.size()), junk | request),
                refused ? kRefused : SECCOMP_RET_ALLOW)
          << std::hex << request;
      if (rm::AnyDriverAccepts(request) && !MayPass(request)) {
        ++taken;
        ASSERT_TRUE(refused) << std::hex << request;
      }
    }
  }
  EXPECT_GT(taken, 10'000U);
}

TEST(OthersFilter, RefusesEveryEscapeInEverySizeOnEveryAbi) {
  const std::vector<sock_filter> filter = BuildOthersFilter();
  for (const rm::EscapeRow& row : rm::EscapeRows()) {
    for (std::uint32_t size = 0; size < 1U << 14U; ++size) {
      const std::uint32_t request = size << 16U | 0x4600U | row.nr;
      if (!rm::AnyDriverAccepts(request) || MayPass(request)) {
        continue;
      }
      for (const Abi& abi : kAbis) {
        ASSERT_EQ(Judge(filter, abi, request), kRefused) << std::hex << request;
      }
    }
  }
  for (const rm::UvmRow& row : rm::UvmRows()) {
    EXPECT_EQ(Judge(filter, kAbis[0], row.request), kRefused) << row.name;
  }
  for (std::uint32_t test = rm::kUvmTestFirst; test <= rm::kUvmTestLast; ++test) {
    EXPECT_EQ(Judge(filter, kAbis[0], test), kRefused) << test;
  }
}

TEST(OthersFilter, LeavesOtherDevicesAlone) {
  const std::vector<sock_filter> filter = BuildOthersFilter();
  // From the kernel's headers: terminals, sockets, files, block devices, tun, KVM, vhost, FUSE,
  // input, video, DRM of Intel and AMD, NVMe, SCSI, USB, userfaultfd, perf.
  for (const std::uint32_t request :
       {0x5401U,     0x5413U,     0x541bU,     0x5421U,     0x8905U,     0x8912U,     0x1U,
        0x2U,        0x80086601U, 0x40049409U, 0x4020940dU, 0xc020660bU, 0x80081272U, 0x4c00U,
        0x400454caU, 0x400454cbU, 0x400454d0U, 0x800454d2U, 0x400454d4U, 0x401054d5U, 0x400454d8U,
        0x800454d7U, 0xae01U,     0xae41U,     0xae80U,     0xaf01U,     0x8004e500U, 0x80184540U,
        0x80685600U, 0xc0406400U, 0x400c645fU, 0xc0206464U, 0x40406469U, 0x40206445U, 0xc0186444U,
        0xc0286448U, 0xc0484e41U, 0xc0484e43U, 0x2285U,     0x8038550aU, 0xc028aa03U, 0x2400U}) {
    EXPECT_FALSE(IsRefusedToOthers(request)) << std::hex << request;
    EXPECT_EQ(Judge(filter, kAbis[0], request), SECCOMP_RET_ALLOW) << std::hex << request;
  }
  for (const Abi& call : {Abi{AUDIT_ARCH_X86_64, SYS_mmap}, {AUDIT_ARCH_I386, 16}}) {
    EXPECT_EQ(Judge(filter, call, 0xc030462b), SECCOMP_RET_ALLOW) << "no ioctl";
  }
}

TEST(OthersFilter, HoldsForWhatTheProcessBecomes) {
  const pid_t child = fork();
  if (child == 0) {
    const auto null = OpenFile("/dev/null", O_RDWR);
    const bool installed =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && InstallOthersFilter().ok() && null.ok();
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      const bool refuses = ioctl(null->get(), 0xc030462bUL, nullptr) != 0 && errno == ENODEV;
      const bool passes = ioctl(null->get(), 0x5401UL, nullptr) != 0 && errno == ENOTTY;
      _exit(installed && refuses && passes ? 0 : 1);
    }
    int status = 1;
    _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cgpu
