#include "os/open_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "os/messages.h"

namespace cgpu::os {
namespace {

class OpenFilesTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::optional<std::vector<bool>> Held(const std::vector<pid_t>& pids,
                                                      const std::vector<int>& files) const {
    const auto holders = FindHeld(proc_.get(), pids, files, [] { return false; });
    if (!holders) {
      return std::nullopt;
    }
    std::vector<bool> held;
    for (const Holder& holder : *holders) {
      held.push_back(holder.thread != 0);
    }
    return held;
  }

  UniqueFd file_{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  UniqueFd proc_{open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(OpenFilesTest, ADuplicateIsTheSameAndAnotherOpenIsNot) {
  const UniqueFd duplicate = Duplicate(file_.get());
  const UniqueFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(duplicate.valid());
  EXPECT_EQ(Compare(file_.get(), duplicate.get()), 0);
  EXPECT_NE(Compare(file_.get(), other.get()), 0);
  EXPECT_NE(Compare(file_.get(), -1), 0);
}

TEST_F(OpenFilesTest, OpenFilesHaveAnOrder) {
  const UniqueFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd duplicate = Duplicate(file_.get());
  EXPECT_EQ(Compare(file_.get(), other.get()) < 0, Compare(other.get(), duplicate.get()) > 0);
}

// One of each inode, and many of one.
TEST_F(OpenFilesTest, EveryFileIsFoundAmongMany) {
  std::vector<UniqueFd> mine;
  std::vector<int> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(
        mine.emplace_back(open(i % 10 == 0 ? "/" : "/dev/null", O_RDONLY | O_CLOEXEC)).get());
  }
  EXPECT_EQ(Held({getpid()}, files), std::vector<bool>(files.size(), true));
}

TEST_F(OpenFilesTest, AChildIsFoundAndHasWhatItInherited) {
  int wait_pipe[2];
  ASSERT_EQ(pipe2(wait_pipe, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(wait_pipe[1]);
    char byte = 0;
    (void)!read(wait_pipe[0], &byte, 1);  // until the parent closes its end
    _exit(0);
  }
  close(wait_pipe[0]);
  const auto all = Descendants(proc_.get(), getpid());
  EXPECT_NE(std::find(all.begin(), all.end(), child), all.end());
  EXPECT_EQ(all.front(), getpid());
  const UniqueFd later(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd folder(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::vector<int> files = {later.get(), file_.get(), folder.get(), proc_.get()};
  EXPECT_EQ(Held({child}, files), std::vector<bool>({false, true, false, true}));
  EXPECT_EQ(Held({child, getpid()}, files), std::vector<bool>(4, true));
  EXPECT_EQ(FindHeld(proc_.get(), {child}, files, [] { return true; }), std::nullopt);
  close(wait_pipe[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(Held({child}, files), std::vector<bool>(4, false));
  EXPECT_TRUE(Descendants(proc_.get(), 0).empty());
}

TEST_F(OpenFilesTest, AFileInASocketIsInFlightUntilItIsReceived) {
  const auto in_flight = [&](bool stop) {
    return HasFilesInFlight(proc_.get(), {getpid()}, [stop] { return stop; });
  };
  const auto pair = MakeMessagePair();
  ASSERT_TRUE(pair.ok());
  EXPECT_FALSE(in_flight(false));
  EXPECT_TRUE(in_flight(true));
  ASSERT_TRUE(SendMessage(pair->first.get(), "x", file_.get()).ok());
  if (!in_flight(false)) {
    GTEST_SKIP() << "this kernel does not tell";
  }
  ASSERT_TRUE(ReceiveMessage(pair->second.get(), 0).ok());
  EXPECT_FALSE(in_flight(false));
}

}  // namespace
}  // namespace cgpu::os
