#include "kernel/open_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace cgpu::kernel {
namespace {

class OpenFilesTest : public ::testing::Test {
 protected:
  UniqueFd file_{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  UniqueFd proc_{open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(OpenFilesTest, ADuplicateIsTheSameAndAnotherOpenIsNot) {
  const UniqueFd duplicate = Duplicate(file_.get());
  const UniqueFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(duplicate.valid());
  EXPECT_TRUE(SameOpenFile(file_.get(), duplicate.get()));
  EXPECT_FALSE(SameOpenFile(file_.get(), other.get()));
  EXPECT_FALSE(SameOpenFile(file_.get(), -1));
}

TEST_F(OpenFilesTest, AChildIsFoundAndHasWhatItInherited) {
  int wait_pipe[2];
  ASSERT_EQ(pipe2(wait_pipe, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(wait_pipe[1]);
    char byte = 0;
    (void)!read(wait_pipe[0], &byte, 1);  // until the parent lets go
    _exit(0);
  }
  close(wait_pipe[0]);
  const auto all = Descendants(proc_.get(), getpid());
  EXPECT_NE(std::find(all.begin(), all.end(), child), all.end());
  EXPECT_EQ(all.front(), getpid());
  EXPECT_TRUE(HasFile(proc_.get(), child, file_.get()));
  const UniqueFd later(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(HasFile(proc_.get(), child, later.get()));
  close(wait_pipe[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(HasFile(proc_.get(), child, file_.get()));
  EXPECT_TRUE(Descendants(proc_.get(), 0).empty());
}

}  // namespace
}  // namespace cgpu::kernel
