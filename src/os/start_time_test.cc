#include "os/start_time.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/fd.h"

namespace cgpu::os {
namespace {

TEST(StartTimeTest, IsTheTwentySecondField) {
  EXPECT_EQ(StartTimeIn("7 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4321 99 100"), 4321);
  EXPECT_EQ(StartTimeIn("7 (a) S 1) R 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12 99"), 12)
      << "a name may hold parentheses";
}

TEST(StartTimeTest, OtherTextsHaveNone) {
  EXPECT_EQ(StartTimeIn(""), std::nullopt);
  EXPECT_EQ(StartTimeIn("7 (sh) S 1 7 7"), std::nullopt);
  EXPECT_EQ(StartTimeIn("7 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4321"), std::nullopt)
      << "it may be cut off";
  EXPECT_EQ(StartTimeIn("7 (sh) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x 99"), std::nullopt);
}

TEST(StartTimeTest, IsTheProcessesOwn) {
  const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto ours = StartTime(proc.get(), getpid());
  ASSERT_TRUE(ours.has_value());
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto childs = StartTime(proc.get(), child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(childs.has_value());
  EXPECT_GE(*childs, *ours);
  EXPECT_EQ(StartTime(proc.get(), child), std::nullopt) << "it has been waited for";
}

}  // namespace
}  // namespace cgpu::os
