#include "os/address_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>

namespace cgpu::os {
namespace {

constexpr std::uint64_t kBase = 0x100000000000;
constexpr std::size_t kSize = 8192;

int SleepForEver(void* /*unused*/) {
  while (true) {
    pause();
  }
}

// A process that maps a file at kBase and may share its memory with another, which it leaves.
class AddressSpaceTest : public ::testing::Test {
 protected:
  AddressSpaceTest() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    char name[] = "/proc";
    proc_ = UniqueFd(open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~AddressSpaceTest() override {
    for (const pid_t pid : {child_, sharer_}) {
      if (pid > 0) {
        kill(pid, SIGKILL);
      }
    }
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    close(pipe_[0]);
  }

  // Makes the process continue once it has mapped.
  void Start(bool share) {
    child_ = fork();
    if (child_ == 0) {
      const bool mapped =
          mmap(std::bit_cast<void*>(kBase), kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               file_.get(), static_cast<off_t>(kBase)) != MAP_FAILED;
      static std::array<char, 64 * 1024> stack;
      // CLONE_PARENT: ours to wait for.
      const pid_t sharer = share && mapped ? clone(SleepForEver, stack.data() + stack.size(),
                                                   CLONE_VM | CLONE_PARENT | SIGCHLD, nullptr)
                                           : 0;
      if (!mapped || write(pipe_[1], &sharer, sizeof(sharer)) != sizeof(sharer)) {
        _exit(1);
      }
      (void)SleepForEver(nullptr);
    }
    ASSERT_NO_FATAL_FAILURE(AwaitSharer());
    auto space = OpenAddressSpace(proc_.get(), child_, child_);
    ASSERT_TRUE(space.ok());
    space_ = std::move(*space);
    ASSERT_TRUE(ReadMappings(space_).has_value());
    EXPECT_EQ(ReadMappings(space_)->size(), 1U);
  }
  // Reads what the process writes of its sharer; fails if it ended before.
  void AwaitSharer() {
    close(pipe_[1]);
    ASSERT_EQ(read(pipe_[0], &sharer_, sizeof(sharer_)), static_cast<ssize_t>(sizeof(sharer_)));
  }
  static void End(pid_t& pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }

  UniqueFd file_{memfd_create("file", MFD_CLOEXEC)};
  UniqueFd proc_;
  int pipe_[2] = {-1, -1};
  pid_t child_ = 0;
  pid_t sharer_ = 0;
  AddressSpace space_;
};

TEST_F(AddressSpaceTest, EndsWithItsOnlyProcess) {
  Start(false);
  EXPECT_TRUE(IsUsed(space_));
  End(child_);
  EXPECT_FALSE(IsUsed(space_));
  EXPECT_FALSE(ReadMappings(space_).has_value());
  EXPECT_FALSE(OpenAddressSpace(proc_.get(), 0x3fffffff, 0x3fffffff).ok());
}

TEST_F(AddressSpaceTest, OutlivesTheProcessThatItWasOpenedBy) {
  Start(true);
  kill(child_, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(ReadMappings(space_).has_value()) << "nobody has waited for it";
  EXPECT_EQ(ReadMappings(space_)->size(), 1U);
  End(child_);
  EXPECT_TRUE(IsUsed(space_));
  EXPECT_FALSE(ReadMappings(space_).has_value()) << "nobody can be asked";
  End(sharer_);
  EXPECT_FALSE(IsUsed(space_));
}

TEST_F(AddressSpaceTest, OutlivesTheExecutionOfAnotherProgram) {
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  child_ = fork();
  if (child_ == 0) {
    char program[] = "/bin/sleep";
    char how_long[] = "1000";
    char* const argv[] = {program, how_long, nullptr};
    char go = 0;
    (void)mmap(std::bit_cast<void*>(kBase), kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               file_.get(), static_cast<off_t>(kBase));
    static std::array<char, 64 * 1024> stack;
    (void)!read(ready[0], &go, 1);
    const pid_t sharer = clone(SleepForEver, stack.data() + stack.size(),
                               CLONE_VM | CLONE_FILES | CLONE_PARENT | SIGCHLD, nullptr);
    (void)!write(pipe_[1], &sharer, sizeof(sharer));
    execv(program, argv);
    _exit(1);
  }
  close(ready[0]);
  auto space = OpenAddressSpace(proc_.get(), child_, child_);
  ASSERT_TRUE(space.ok());
  ASSERT_EQ(write(ready[1], "g", 1), 1);
  close(ready[1]);
  ASSERT_NO_FATAL_FAILURE(AwaitSharer());
  // Once it shows another address space by its number, it has left this one.
  for (bool left = false; !left;) {
    auto now = OpenAddressSpace(proc_.get(), child_, child_);
    left = now.ok() && ReadMappings(*now) && ReadMappings(*now)->empty();
  }
  ASSERT_TRUE(ReadMappings(*space).has_value());
  EXPECT_EQ(ReadMappings(*space)->size(), 1U);
  End(sharer_);
  EXPECT_FALSE(IsUsed(*space));
}

}  // namespace
}  // namespace cgpu::os
