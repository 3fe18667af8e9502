#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace cgpu {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) {
    return Error{Code::kInvalid, 0, "odd", "give an even number"};
  }
  return n / 2;
}

Result<> Check(int n) {
  CGPU_TRY(Half(n));
  return {};
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*Half(4), 2);
  ASSERT_FALSE(Half(3).ok());
  EXPECT_EQ(Half(3).error().code, Code::kInvalid);
  EXPECT_EQ(FormatError(Half(3).error()), "error: odd\nhint: give an even number");
}

TEST(Result, AnotherValueTakesThePlaceOfAnError) {
  const auto half = Half(4);
  EXPECT_EQ(half.value_or(7), 2);
  EXPECT_EQ(Half(3).value_or(7), 7);
}

TEST(Result, TryReturnsTheError) {
  EXPECT_TRUE(Check(2).ok());
  EXPECT_EQ(Check(1).error().what, "odd");
}

TEST(Result, ErrnoErrorNamesTheCause) {
  const Error error = ErrnoError(Code::kNotFound, ENOENT, "cannot open x");
  EXPECT_EQ(error.what, "cannot open x: No such file or directory");
  EXPECT_EQ(error.sys_errno, ENOENT);
}

TEST(UniqueFd, ClosesOnceAndKeepsErrno) {
  int raw = -1;
  {
    UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    raw = fd.get();
    ASSERT_TRUE(fd.valid());
    UniqueFd moved = std::move(fd);
    EXPECT_EQ(moved.get(), raw);
    errno = ENOTTY;
  }
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST(File, ReadsWritesAndSaysWhichPathFailed) {
  char pattern[] = "/tmp/cgpu-file-XXXXXX";
  ASSERT_NE(mkdtemp(pattern), nullptr);
  const std::string dir = pattern;
  ASSERT_TRUE(MakeDirectories(dir + "/a/b").ok());
  ASSERT_TRUE(WriteFile(dir + "/a/b/f", "hello").ok());
  EXPECT_EQ(*ReadFile(dir + "/a/b/f"), "hello");
  EXPECT_EQ(ReadFile(dir + "/a/b/f", 2).error().code, Code::kExhausted);
  ASSERT_TRUE(WriteFile(dir + "/a/c", "").ok());
  ASSERT_TRUE(WriteFile(dir + "/a/.a", "").ok());
  EXPECT_EQ(*NamesIn(dir + "/a"), (std::vector<std::string>{".a", "b", "c"}));
  EXPECT_TRUE(NamesIn(dir + "/none").value_or({}).empty());
  EXPECT_EQ(NamesIn(dir + "/none").error().sys_errno, ENOENT);
  EXPECT_NE(NamesIn(dir + "/none").error().what.find("/none"), std::string::npos);
  EXPECT_EQ(NamesIn(dir + "/a/c").error().code, Code::kNotFound);
  const auto missing = ReadFile(dir + "/none");
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().what.find("/none"), std::string::npos);
  ASSERT_EQ(unlink((dir + "/a/b/f").c_str()), 0);
  ASSERT_EQ(rmdir((dir + "/a/b").c_str()), 0);
  ASSERT_EQ(unlink((dir + "/a/c").c_str()), 0);
  ASSERT_EQ(unlink((dir + "/a/.a").c_str()), 0);
  ASSERT_EQ(rmdir((dir + "/a").c_str()), 0);
  ASSERT_EQ(rmdir(dir.c_str()), 0);
}

}  // namespace
}  // namespace cgpu
