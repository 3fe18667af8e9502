#include "kernel/maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bit>
#include <cstdio>

#include "base/fd.h"

namespace cgpu::kernel {
namespace {

TEST(Maps, FindsRangesByDeviceAndInode) {
  const InodeSet inodes = {{makedev(0, 0x105), 612}};
  const auto ranges = RangesOf(
      "55d0c0a00000-55d0c0a21000 r--p 00000000 fe:01 612                        /usr/bin/cat\n"
      "7f0000000000-7f0000200000 rw-s 7f0000000000 00:105 612                   /dev/nvidia-uvm\n"
      "7f0000200000-7f0000201000 rw-s 00000000 00:105 613                   /dev/nvidia-uvm\n"
      "ffff-10000 rw-s 00000000 00:105 612 (deleted) x\n"
      "nonsense\n\n7f00-\n7ffc4b3d2000-7ffc4b3f3000 rw-p 00000000 00:00 0  [stack]",
      inodes);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].start, 0x7f0000000000U);
  EXPECT_EQ(ranges[0].end, 0x7f0000200000U);
  EXPECT_EQ(ranges[1].start, 0xffffU);
}

TEST(Maps, ReadsThoseOfAProcess) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const int fd = fileno(file);
  struct stat info{};
  ASSERT_EQ(fstat(fd, &info), 0);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  void* mapping = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto ranges = ReadMappings(proc.get(), getpid(), {{info.st_dev, info.st_ino}});
  ASSERT_TRUE(ranges.ok());
  ASSERT_EQ(ranges->size(), 1U);
  EXPECT_EQ((*ranges)[0].start, std::bit_cast<std::uint64_t>(mapping));
  EXPECT_EQ((*ranges)[0].end - (*ranges)[0].start, 8192U);
  munmap(mapping, 8192);
  std::fclose(file);
  EXPECT_FALSE(ReadMappings(proc.get(), -1, {}).ok());
}

TEST(Maps, AThreadInTheCallHasNotLeftAndAMissingOneHas) {
  const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(HasLeftCall(proc.get(), getpid(), SYS_read)) << "the one it asks in";
  EXPECT_TRUE(HasLeftCall(proc.get(), 0x3fffffff, SYS_mmap));
}

}  // namespace
}  // namespace cgpu::kernel
