#include "page/assets.h"

#include <gmock/gmock.h>

namespace cgpu::page {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Assets, HaveThePage) {
  const Asset* const page = FindAsset("/");
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->type, "text/html; charset=utf-8");
  EXPECT_THAT(std::string(page->bytes), HasSubstr("<title>cgpu</title>"));
  EXPECT_THAT(std::string(page->bytes), Not(HasSubstr("<style")));
}

TEST(Assets, AreNoOtherFiles) {
  for (const char* path :
       {"", "index.html", "/index.html", "/..", "//", "/assets/", "/etc/passwd"}) {
    EXPECT_EQ(FindAsset(path), nullptr) << path;
  }
}

}  // namespace
}  // namespace cgpu::page
