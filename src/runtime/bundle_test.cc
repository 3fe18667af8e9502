#include "runtime/bundle.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/file.h"

namespace cgpu {
namespace {

namespace fs = std::filesystem;

class BundleTest : public testing::Test {
 protected:
  BundleTest() {
    char folder[] = "/tmp/bundle-test-XXXXXX";
    folder_ = mkdtemp(folder);  // NOLINT(concurrency-mt-unsafe): one thread
    EXPECT_TRUE(WriteFile(Path(), "original", 0640).ok());
  }
  ~BundleTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string Path() const { return folder_ + "/config.json"; }
  [[nodiscard]] std::string Now() const { return ReadFile(Path()).value(); }
  [[nodiscard]] std::ptrdiff_t Files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  std::string folder_;
};

TEST_F(BundleTest, IsReplacedWithItsMode) {
  auto bundle = Bundle::Open(folder_, "config.json");
  ASSERT_TRUE(bundle.ok());
  EXPECT_EQ(bundle->text(), "original");
  ASSERT_TRUE(bundle->Replace("changed").ok());
  EXPECT_EQ(Now(), "changed");
  struct stat info{};
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
}

TEST_F(BundleTest, ASecondRunBeginsWithTheOriginal) {
  for (const char* text : {"first", "second", "second", "third"}) {
    auto bundle = Bundle::Open(folder_, "config.json");
    ASSERT_TRUE(bundle.ok());
    EXPECT_EQ(bundle->text(), "original") << text;
    ASSERT_TRUE(bundle->Replace(text).ok());
    EXPECT_EQ(Now(), text);
    EXPECT_EQ(Files(), 2) << "one is kept";
  }
}

TEST_F(BundleTest, OneWrittenAnewIsTakenAsItIs) {
  ASSERT_TRUE(Bundle::Open(folder_, "config.json")->Replace("changed").ok());
  ASSERT_TRUE(WriteFile(Path(), "anew").ok());
  EXPECT_EQ(Bundle::Open(folder_, "config.json")->text(), "anew");
}

TEST_F(BundleTest, NothingToChangeWritesNothing) {
  ASSERT_TRUE(Bundle::Open("/nowhere", Path())->Replace("original").ok());
  EXPECT_EQ(Now(), "original");
  EXPECT_EQ(Files(), 1);
}

TEST_F(BundleTest, WithoutAConfigurationThereIsNone) {
  EXPECT_EQ(Bundle::Open(folder_, "other.json").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cgpu
