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

constexpr int kNoNamespace = 77;

// Returns "" if all is as it should be. In a process of its own.
std::string WithoutInstances(const std::string& folder) {
  const std::string map = "0 " + std::to_string(geteuid()) + " 1";
  if (unshare(CLONE_NEWUSER) != 0 || !WriteFile("/proc/self/uid_map", map).ok() ||
      !SetInstances("0")) {
    _exit(kNoNamespace);
  }
  FolderWatch watch(folder, kStart);
  if (watch.fd() != -1 || watch.next() != kStart + kSecond) {
    return "there is an instance";
  }
  FolderWatch::Time now = kStart;
  (void)watch.Changed(now += kSecond);  // it has not looked before
  (void)watch.Changed(now += kSecond);
  if (watch.Changed(now += kSecond) || watch.next() != now + kSecond) {
    return "nothing is a change";
  }
  Put(folder);
  if (watch.Changed(now) || !watch.Changed(now += kSecond)) {
    return "it does not look each second";
  }
  Put(folder);
  if (!SetInstances("1") || !watch.Changed(now += kSecond) || watch.next()) {
    return "it does not take an instance that is there again, or forgets what was before";
  }
  Put(folder);
  return watch.Changed(now) ? "" : "it does not hear";
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
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNamespace) {
    GTEST_SKIP() << "no user namespaces of one's own on this machine";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cgpu
