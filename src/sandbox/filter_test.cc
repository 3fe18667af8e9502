#include "sandbox/filter.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <random>

#include "os/testing.h"

namespace cgpu::sandbox {
namespace {

seccomp_data Ioctl(std::uint64_t request) {
  seccomp_data data{};
  data.arch = AUDIT_ARCH_X86_64;
  data.nr = SYS_ioctl;
  data.args[1] = request;
  return data;
}

TEST(Filter, TrapsWhatTheDriverMightAccept) {
  const auto program = BuildGpuFilter();
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t request = random();
    const auto low = static_cast<std::uint32_t>(request);
    EXPECT_EQ(os::Judge(program, Ioctl(request)),
              IsTrapped(low) ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW);
  }
  for (std::uint32_t type = 0; type < 256; ++type) {
    for (std::uint32_t direction = 0; direction < 4; ++direction) {
      const std::uint32_t alloc = direction << 30 | 0x30U << 16 | type << 8 | 0x2b;
      EXPECT_EQ(os::Judge(program, Ioctl(0xdeadbeef00000000ULL | alloc)), SECCOMP_RET_USER_NOTIF);
    }
  }
  EXPECT_EQ(os::Judge(program, Ioctl(0x30000001)), SECCOMP_RET_USER_NOTIF);  // UVM_INITIALIZE
  EXPECT_EQ(os::Judge(program, Ioctl(33)), SECCOMP_RET_USER_NOTIF);  // UVM_MAP_EXTERNAL_ALLOCATION
  EXPECT_EQ(os::Judge(program, Ioctl(0x46da)),
            SECCOMP_RET_USER_NOTIF);  // NV_ESC_WAIT_OPEN_COMPLETE
  EXPECT_EQ(os::Judge(program, Ioctl(0x465f)), SECCOMP_RET_USER_NOTIF);  // LOCKLESS_DIAGNOSTIC
  EXPECT_EQ(os::Judge(program, Ioctl(0x5401)), SECCOMP_RET_ALLOW);       // TCGETS
  EXPECT_EQ(os::Judge(program, Ioctl(0x8901)), SECCOMP_RET_ALLOW);       // FIOSETOWN
}

seccomp_data Mmap(std::uint64_t prot, std::uint64_t flags, std::uint64_t offset) {
  seccomp_data data{};
  data.arch = AUDIT_ARCH_X86_64;
  data.nr = SYS_mmap;
  data.args[0] = 0x700000000000;
  data.args[1] = 1 << 21;
  data.args[2] = prot;
  data.args[3] = flags;
  data.args[5] = offset;
  return data;
}

TEST(Filter, TrapsMappingsThatManagedMemoryCouldComeOf) {
  const auto program = BuildGpuFilter();
  std::mt19937_64 random(2);
  constexpr std::array<std::uint64_t, 8> kOffsets = {
      0, 0xfff, 0x1000, 0x2000, 0x700000000000, 0x100000000, 0xffffffff00000000, 0x80000000};
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t prot = random() & 0xf;
    const std::uint64_t flags = random();
    const std::uint64_t offset = i % 2 == 0 ? random() : kOffsets[random() % kOffsets.size()];
    EXPECT_EQ(os::Judge(program, Mmap(prot, flags, offset)),
              IsTrappedMmap(prot, flags, offset) ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW)
        << prot << " " << flags << " " << offset;
  }
  EXPECT_EQ(os::Judge(program, Mmap(3, 0x11, 0x700000000000)), SECCOMP_RET_USER_NOTIF);
  EXPECT_EQ(os::Judge(program, Mmap(3, 0x03, 0x700000000000)), SECCOMP_RET_USER_NOTIF);
  EXPECT_EQ(os::Judge(program, Mmap(7, 0x01, 0x1000)), SECCOMP_RET_USER_NOTIF);
  EXPECT_EQ(os::Judge(program, Mmap(3, 0x01, 0)), SECCOMP_RET_ALLOW);
  EXPECT_EQ(os::Judge(program, Mmap(3, 0x02, 0x1000)), SECCOMP_RET_ALLOW);
}

TEST(Filter, TrapsMovesOfMappings) {
  const auto program = BuildGpuFilter();
  seccomp_data data{};
  data.arch = AUDIT_ARCH_X86_64;
  data.nr = SYS_mremap;
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    data.args[3] = i < 16 ? static_cast<std::uint64_t>(i) : random();
    EXPECT_EQ(os::Judge(program, data),
              IsTrappedMremap(data.args[3]) ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW);
  }
  data.args[3] = MREMAP_MAYMOVE;
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_ALLOW) << "realloc()";
  data.args[3] = MREMAP_MAYMOVE | MREMAP_FIXED;
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_USER_NOTIF);
}

TEST(Filter, KillsOtherEntriesAndRefusesIoUring) {
  const auto program = BuildGpuFilter();
  seccomp_data data = Ioctl(0xc030462b);
  data.arch = AUDIT_ARCH_I386;
  data.nr = 54;
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_KILL_PROCESS);
  data.arch = AUDIT_ARCH_X86_64;
  data.nr = static_cast<int>(0x40000000U + 514);
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_KILL_PROCESS);
  data.nr = static_cast<int>(0x40000000U);
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_KILL_PROCESS);
  data.nr = SYS_io_uring_setup;
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_ERRNO | EPERM);
  data.nr = SYS_remap_file_pages;
  EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_ERRNO | ENOSYS);
  for (const int nr : {SYS_read, SYS_mmap, SYS_close, SYS_execve, SYS_clone3}) {
    data.nr = nr;
    EXPECT_EQ(os::Judge(program, data), SECCOMP_RET_ALLOW);
  }
}

}  // namespace
}  // namespace cgpu::sandbox
