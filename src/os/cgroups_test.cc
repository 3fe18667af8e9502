#include "os/cgroups.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace cgpu::os {
namespace {

TEST(Cgroups, BelowIsIn) {
  constexpr const char* kOne = "2:memory:/docker/3f2a\n0::/docker/3f2a\n";
  EXPECT_TRUE(IsIn(kOne, kOne));
  EXPECT_TRUE(IsIn("2:memory:/docker/3f2a/init\n0::/docker/3f2a/init\n", kOne));
  EXPECT_FALSE(IsIn("2:memory:/docker/3f2a\n0::/docker\n", kOne)) << "in one hierarchy only";
  EXPECT_FALSE(IsIn("2:memory:/docker/3f2ab\n0::/docker/3f2ab\n", kOne)) << "another's name";
  EXPECT_FALSE(IsIn("2:memory:/docker\n0::/docker\n", kOne));
  EXPECT_FALSE(IsIn("", kOne));
  EXPECT_TRUE(IsIn("0::/a\n", "0::/\n"));
}

TEST(Cgroups, OfThisProcess) {
  const auto own = CgroupsOf(static_cast<unsigned>(getpid()));
  ASSERT_TRUE(own.ok());
  EXPECT_TRUE(IsIn(*own, *own));
  EXPECT_FALSE(CgroupsOf(1U << 30).ok());
}

TEST(IsCalledAfter, ComparesWholeNames) {
  EXPECT_TRUE(IsCalledAfter("0::/docker/0abc\n", "0abc"));
  EXPECT_TRUE(IsCalledAfter("4:memory:/\n0::/system.slice/docker-0abc.scope\n", "0abc"));
  EXPECT_TRUE(IsCalledAfter("0::/a/libpod-0abc.scope/container\n", "0abc"));
  EXPECT_FALSE(IsCalledAfter("0::/docker/0abcd\n", "0abc"));
  EXPECT_FALSE(IsCalledAfter("0::/system.slice/cron.service\n", "cron"));
  EXPECT_FALSE(IsCalledAfter("0::/user.slice/session-1.scope\n", "/"));
  EXPECT_FALSE(IsCalledAfter("0::/\n", "/"));
  EXPECT_FALSE(IsCalledAfter("0::/\n", ""));
}

}  // namespace
}  // namespace cgpu::os
