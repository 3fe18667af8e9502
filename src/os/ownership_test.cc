#include "os/ownership.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/fd.h"
#include "base/file.h"

namespace cgpu::os {
namespace {

constexpr uid_t kSomebody = 54321;

bool Write(const char* path, const std::string& text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  return WriteAll(file.get(), text).ok();
}

// Starts a process in a user namespace of `user`'s, which lives until its input is closed. -1: not
// possible.
pid_t ProcessOf(uid_t user, UniqueFd* input) {
  int to_child[2];
  int to_us[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(to_us, O_CLOEXEC) != 0) {
    return -1;
  }
  const pid_t child = fork();
  char c = 0;
  if (child == 0) {
    close(to_child[1]);
    // Without ids in a namespace a process may make no other one in it.
    const std::string map = "0 " + std::to_string(user) + " 1\n";
    if (setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0 &&
        prctl(PR_SET_DUMPABLE, 1) == 0 && unshare(CLONE_NEWUSER) == 0 &&
        Write("/proc/self/uid_map", map) && Write("/proc/self/setgroups", "deny") &&
        Write("/proc/self/gid_map", map) && unshare(CLONE_NEWUSER) == 0) {
      (void)!write(to_us[1], &c, 1);
      (void)!read(to_child[0], &c, 1);
    }
    _exit(0);
  }
  close(to_child[0]);
  close(to_us[1]);
  const bool ready = read(to_us[0], &c, 1) == 1;
  close(to_us[0]);
  input->reset(to_child[1]);
  return ready ? child : -1;
}

TEST(OwnershipTest, ProcessesAreTheirNamespacesMakers) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be two users";
  }
  const UniqueFd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  UniqueFd input;
  const pid_t child = ProcessOf(kSomebody, &input);
  if (child < 0) {
    GTEST_SKIP() << "no user namespaces on this machine";
  }
  EXPECT_TRUE(IsInNamespaceOf(proc.get(), child, kSomebody));
  EXPECT_FALSE(IsInNamespaceOf(proc.get(), child, kSomebody + 1));
  EXPECT_FALSE(IsInNamespaceOf(proc.get(), getpid(), kSomebody));
  EXPECT_EQ(OutermostOwner(proc.get(), child, kSomebody + 1), kSomebody);
  EXPECT_EQ(OutermostOwner(proc.get(), getpid(), kSomebody + 1), kSomebody + 1);
  input.reset();
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsInNamespaceOf(proc.get(), child, kSomebody));
  EXPECT_EQ(OutermostOwner(proc.get(), child, kSomebody), std::nullopt);
}

}  // namespace
}  // namespace cgpu::os
