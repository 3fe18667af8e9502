#include "os/maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace cgpu::os {
namespace {

TEST(Maps, FindsSharedRangesThatLieAtTheirOffset) {
  std::vector<MappedRange> ranges;
  std::string text =
      "55d0c0a00000-55d0c0a21000 r--p 00000000 fe:01 612                        /usr/bin/cat\n"
      "7f0000000000-7f0000200000 rw-s 7f0000000000 00:105 612                   /dev/nvidia-uvm\n"
      "7f0000200000-7f0000201000 rw-s 7f0000200000 00:105 613          of another container's "
      "file\n"
      "7f0000300000-7f0000301000 rw-p 7f0000300000 00:105 612                          private\n"
      "7f0000400000-7f0000600000 rw-s 7f0000000000 00:105 612    /dev/nvidia-uvm moved\n"
      "ffff-10000 rw-s 0000ffff 00:105 612 (deleted) x\n"
      "nonsense\n\n7f00-\n7ffc4b3d2000-7ffc4b3f3000 rw-p 00000000 00:00 0  [stack]";
  TakeRanges(text, ranges);
  EXPECT_TRUE(text.starts_with("7ffc4b3d2000")) << "the line is not whole";
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0].start, 0x7f0000000000U);
  EXPECT_EQ(ranges[0].end, 0x7f0000200000U);
  EXPECT_EQ(ranges[1].start, 0x7f0000200000U);
  EXPECT_EQ(ranges[2].start, 0xffffU);
}

// Uses this kernel's own file systems.
TEST(Maps, ShowTheDeviceOfMostFileSystems) {
  for (const char* path : {"/dev/null", "/proc/self/exe"}) {
    const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
    struct statfs system{};
    ASSERT_EQ(fstatfs(file.get(), &system), 0);
    EXPECT_EQ(ShowItsDevice(file.get()),
              system.f_type != BTRFS_SUPER_MAGIC && system.f_type != OVERLAYFS_SUPER_MAGIC)
        << path;
  }
  EXPECT_FALSE(ShowItsDevice(-1));
}

// Uses an overlay of our own, where we may mount one.
TEST(Maps, DoNotShowTheDeviceOfOverlayfs) {
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("overlay", "/mnt", "overlay", MS_RDONLY, "lowerdir=/usr/bin:/etc") != 0) {
    GTEST_SKIP() << "no overlay can be mounted here";
  }
  const UniqueFd file(open("/mnt/env", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  EXPECT_FALSE(ShowItsDevice(file.get()));
}

TEST(Maps, AThreadInTheCallHasNotLeftAndAMissingOneHas) {
  const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(HasLeftCalls(proc.get(), getpid(), {SYS_read})) << "the one it asks in";
  EXPECT_TRUE(HasLeftCalls(proc.get(), 0x3fffffff, {SYS_mmap}));
}

}  // namespace
}  // namespace cgpu::os
