#include "os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <vector>

#include "base/fd.h"

namespace cgpu::os {
namespace {

TEST(Identify, KnowsADeviceByItsNumberWhereverItLies) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto identity = Identify(null.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->rdev, makedev(1, 3));
}

TEST(Identify, KnowsOtherFilesByDeviceAndInode) {
  const UniqueFd folder(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(folder.valid());
  struct stat st{};
  ASSERT_EQ(fstat(folder.get(), &st), 0);
  const auto identity = Identify(folder.get());
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->rdev, 0U);
  EXPECT_EQ(identity->dev, st.st_dev);
  EXPECT_EQ(identity->ino, st.st_ino);
}

TEST(Identify, FailsOnWhatIsNoFile) {
  EXPECT_FALSE(Identify(-1).ok());
}

// A process that shares its memory with this one, until it is told to exec.
struct Sharer {
  int go[2];
  int done[2];  // O_CLOEXEC: the exec closes them
};

int WaitAndExec(void* argument) {
  const auto* sharer = static_cast<Sharer*>(argument);
  char byte = 0;
  (void)!read(sharer->go[0], &byte, 1);
  char program[] = "/bin/cat";
  char file[] = "/dev/zero";
  char* const argv[] = {program, file, nullptr};
  (void)dup2(open("/dev/null", O_WRONLY), 1);
  execve(program, argv, nullptr);
  _exit(1);
}

TEST(CallerTable, SeesAnExecAfterWhichItsParentKeepsTheMemory) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a process that shares memory but is no thread confuses the sanitizer";
#endif
  Sharer sharer{};
  ASSERT_EQ(pipe2(sharer.go, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(sharer.done, O_CLOEXEC), 0);
  std::vector<char> stack(1 << 16);
  const pid_t child = clone(WaitAndExec, stack.data() + stack.size(), CLONE_VM | SIGCHLD, &sharer);
  ASSERT_GT(child, 0);
  CallerTable table(UniqueFd(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  const std::uint64_t canary = 0x5eed5eed5eed5eed;
  const auto address = reinterpret_cast<std::uintptr_t>(&canary);
  const auto before = table.Find(child, false);
  ASSERT_TRUE(before.ok());
  std::uint64_t seen = 0;
  EXPECT_EQ((*before)->Read(address, &seen, sizeof(seen)), static_cast<ssize_t>(sizeof(seen)));
  EXPECT_EQ(seen, canary);
  EXPECT_EQ(table.Find(child, false).value(), *before) << "looked up again without need";

  close(sharer.done[1]);
  ASSERT_EQ(write(sharer.go[1], "", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(sharer.done[0], &byte, 1), 0);  // until the exec
  const auto after = table.Find(child, false);
  ASSERT_TRUE(after.ok());
  EXPECT_NE((*after)->Read(address, &seen, sizeof(seen)), static_cast<ssize_t>(sizeof(seen)))
      << "read from the parent";
  EXPECT_EQ((*after)->process->serial, (*before)->process->serial) << "it is the same process";
  EXPECT_EQ(table.Find(child, false).value(), *after) << "looked up again without need";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(sharer.go[0]);
  close(sharer.go[1]);
  close(sharer.done[0]);
}

TEST(CallerTable, SaysOnceThatAProcessHasExitedWhoeverHoldsItStill) {
  CallerTable table(UniqueFd(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto held = table.Find(child, false);
  const auto anew = table.Find(child, true);
  ASSERT_TRUE(held.ok() && anew.ok());
  pollfd exits{table.exit_events(), POLLIN, 0};
  EXPECT_EQ(poll(&exits, 1, 0), 0);
  kill(child, SIGKILL);
  EXPECT_EQ(poll(&exits, 1, -1), 1);
  EXPECT_EQ(table.DropDead().size(), 1U);
  EXPECT_EQ(poll(&exits, 1, 0), 0);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace cgpu::os
