#include <gtest/gtest.h>

#include "doctor/facts.h"

namespace cgpu::doctor {
namespace {

TEST(ThisHost, CommandsAreFoundOnceAndHaveTheirErrors) {
  const auto host = ThisHost("1.2.3");
  const auto said = host->Run({"sh", "-c", "echo $$; echo no >&2; exit 3"});
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->status, 3);
  EXPECT_NE(said->text.find("no\n"), std::string::npos);
  EXPECT_EQ(host->Run({"sh", "-c", "echo $$; echo no >&2; exit 3"})->text, said->text);
  const auto missing = host->Run({"/nowhere/program"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
}

TEST(ThisHost, LooksAtFilesOfAllKinds) {
  const auto host = ThisHost("1.2.3");
  const auto null = host->Look("/dev/null");
  ASSERT_TRUE(null.ok());
  EXPECT_EQ(null->kind, FileFacts::Kind::kCharacterDevice);
  EXPECT_EQ(null->major, 1U);
  EXPECT_EQ(null->minor, 3U);
  EXPECT_EQ(host->Look("/proc")->kind, FileFacts::Kind::kFolder);
  EXPECT_EQ(host->Look("/nowhere").error().code, Code::kNotFound);
  EXPECT_EQ(host->Read("/proc/self/comm").ok(), true);
  EXPECT_NE(host->Connect("/nowhere/socket"), 0);
}

}  // namespace
}  // namespace cgpu::doctor
