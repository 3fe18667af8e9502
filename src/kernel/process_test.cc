#include "kernel/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fd.h"

namespace cgpu::kernel {
namespace {

TEST(Identify, KnowsADeviceByItsNumberWhereverItLies) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto identity = Identify(null.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_TRUE(identity->char_device);
  EXPECT_EQ(identity->rdev, makedev(1, 3));
}

TEST(Identify, KnowsOtherFilesByDeviceAndInode) {
  const UniqueFd folder(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(folder.valid());
  struct stat st{};
  ASSERT_EQ(fstat(folder.get(), &st), 0);
  const auto identity = Identify(folder.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_FALSE(identity->char_device);
  EXPECT_EQ(identity->rdev, 0U);
  EXPECT_EQ(identity->dev, st.st_dev);
  EXPECT_EQ(identity->ino, st.st_ino);
}

TEST(Identify, FailsOnWhatIsNoFile) {
  EXPECT_FALSE(Identify(-1).ok());
}

}  // namespace
}  // namespace cgpu::kernel
