#include "base/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

namespace cgpu {
namespace {

TEST(Child, SaysThroughThePipeWhatItsParentReadsToTheEnd) {
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  EXPECT_EQ(fcntl(pipe->from.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(pipe->to.get(), F_GETFD), FD_CLOEXEC);
  const std::vector<std::string> words{"/bin/sh", "-c", "echo \"$0\" >&\"$1\"", "two words",
                                       std::to_string(pipe->to.get())};
  const auto child = Fork();
  ASSERT_TRUE(child.ok());
  if (*child == 0) {
    (void)fcntl(pipe->to.get(), F_SETFD, 0);
    execv(words[0].c_str(), PointersTo(words).data());
    _exit(1);
  }
  pipe->to.reset();
  const auto said = ReadAll(pipe->from.get(), "the pipe");
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(*said, "two words\n");
  EXPECT_EQ(waitpid(*child, nullptr, 0), *child);
}

TEST(Child, IsReadToTheEndTheDeadlineOrTheLimit) {
  constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  std::string text;
  EXPECT_FALSE(ReadUntil(pipe->from.get(), std::chrono::steady_clock::now(), 100, text));
  EXPECT_EQ(text, "");
  ASSERT_TRUE(WriteAll(pipe->to.get(), "four").ok());
  EXPECT_FALSE(ReadUntil(pipe->from.get(), kNever, 3, text));
  pipe->to.reset();
  EXPECT_TRUE(ReadUntil(pipe->from.get(), kNever, 4, text));
  EXPECT_EQ(text, "four");
}

TEST(Child, TellsWhatAProgramSaid) {
  constexpr std::chrono::seconds kLong{60};
  const auto said = OutputOf({"sh", "-c", "cat; echo out; echo err >&2; exit 3"}, kLong, 100);
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->text, "out\n");
  EXPECT_EQ(said->status, 3);
  EXPECT_EQ(OutputOf({"/no/such/program"}, kLong, 100).error().code, Code::kNotFound);
  EXPECT_EQ(OutputOf({"cat", "/dev/zero"}, kLong, 100).error().code, Code::kUnavailable);
  EXPECT_EQ(OutputOf({"sleep", "100000"}, std::chrono::seconds(0), 100).error().code,
            Code::kUnavailable);
}

}  // namespace
}  // namespace cgpu
