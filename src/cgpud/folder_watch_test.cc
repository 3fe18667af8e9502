#include "cgpud/folder_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace cgpu {
namespace {

constexpr FolderWatch::Time kStart{};
constexpr std::chrono::seconds kSecond{1};

bool Readable(const FolderWatch& watch) {
  pollfd polled{watch.fd(), POLLIN, 0};
  return poll(&polled, 1, 0) == 1;
}

void Put(const std::string& folder) {
  EXPECT_TRUE(ReplaceFile(folder + "/file", "text", 0600).ok());
}

class FolderWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/folder-watch-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(FolderWatchTest, HearsOfAChange) {
  FolderWatch watch(folder_, kStart);
  EXPECT_FALSE(watch.next());
  EXPECT_FALSE(Readable(watch));
  EXPECT_FALSE(watch.Changed(kStart));
  Put(folder_);
  EXPECT_TRUE(Readable(watch));
  EXPECT_TRUE(watch.Changed(kStart));
  EXPECT_FALSE(Readable(watch));
  EXPECT_FALSE(watch.Changed(kStart + kSecond));
}

// Sets how many inotify instances this process's user namespace may have.
bool SetInstances(const char* count) {
  return WriteFile("/proc/sys/user/max_inotify_instances", count).ok();
}

// Returns "" if all is as it should be. In a process of its own.
std::string WithoutInstances(const std::string& folder) {
  if (unshare(CLONE_NEWUSER) != 0 || !WriteFile("/proc/self/uid_map", "0 0 1").ok() ||
      !SetInstances("0")) {
    return "there is no user namespace of its own";
  }
  FolderWatch watch(folder, kStart);
  if (watch.fd() != -1 || watch.next() != kStart + kSecond) {
    return "there is an instance";
  }
  if (watch.Changed(kStart) || !watch.Changed(kStart + kSecond) ||
      watch.next() != kStart + 2 * kSecond) {
    return "a second is no change";
  }
  if (!SetInstances("1") || !watch.Changed(kStart + 2 * kSecond) || watch.next()) {
    return "it does not take an instance that is there again, or forgets what was before";
  }
  Put(folder);
  return watch.Changed(kStart + 2 * kSecond) ? "" : "it does not hear";
}

TEST_F(FolderWatchTest, LooksEachSecondWhileThereIsNoInstance) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string wrong = WithoutInstances(folder_);
    (void)WriteAll(STDERR_FILENO, wrong);
    _exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cgpu
