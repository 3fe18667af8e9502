#include "host/pod_grants.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace cgpu {
namespace {

constexpr char kUid[] = "0b5c4b0e-7f55-4c1c-9f0e-0123456789ab";
constexpr std::chrono::milliseconds kNone{0};
constexpr std::chrono::milliseconds kLong{60'000};

class PodGrantsTest : public ::testing::Test {
 protected:
  PodGrantsTest() {
    char pattern[] = "/tmp/cgpu-pods-XXXXXX";
    base_ = mkdtemp(pattern);
    folder_ = base_ + "/pods";
  }
  ~PodGrantsTest() override { std::filesystem::remove_all(base_); }

  std::string base_;
  std::string folder_;
  const PodGrant grant_{
      {"GPU-a", "GPU-b"}, false, {{"main", {8, 30}}, {"side", {2, 0, 4, true}}}, "ns", "pod"};
};

TEST_F(PodGrantsTest, AreReadAsTheyWereWritten) {
  ASSERT_TRUE(WritePodGrant(kUid, grant_, folder_).ok());
  const auto read = WaitForPodGrant(kUid, kNone, folder_);
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(*read, grant_);
  EXPECT_EQ(ListPodGrants(folder_), std::vector<std::string>{kUid});
  EXPECT_EQ(std::filesystem::status(folder_).permissions(), std::filesystem::perms(0700));
  RemovePodGrant(kUid, folder_);
  EXPECT_TRUE(ListPodGrants(folder_).empty());
  EXPECT_EQ(WaitForPodGrant(kUid, kNone, folder_).error().code, Code::kUnavailable);
}

// As a version without weights and priorities writes it.
TEST_F(PodGrantsTest, AreReadInTheirFirstForm) {
  ASSERT_TRUE(WritePodGrant(kUid, grant_, folder_).ok());
  std::ofstream(folder_ + "/" + kUid)
      << R"({"gpus": ["GPU-a"], "containers": {"main": {"memory": 8, "compute": 30}}})";
  const auto read = WaitForPodGrant(kUid, kNone, folder_);
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->containers.at("main"), (PodGrant::Part{8, 30, 1, false}));
}

TEST_F(PodGrantsTest, AreWaitedFor) {
  std::thread writer([&] {
    ASSERT_TRUE(WritePodGrant("0a", grant_, folder_).ok());  // another pod's comes first
    ASSERT_TRUE(WritePodGrant(kUid, grant_, folder_).ok());
  });
  const auto read = WaitForPodGrant(kUid, kLong, folder_);
  writer.join();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, grant_);
}

TEST_F(PodGrantsTest, HaveUidsForNames) {
  for (const char* uid : {"", "..", "../x", "a/b", "A", "x", "."}) {
    EXPECT_EQ(WritePodGrant(uid, grant_, folder_).error().code, Code::kInvalid) << uid;
    EXPECT_EQ(WaitForPodGrant(uid, kNone, folder_).error().code, Code::kInvalid) << uid;
  }
}

TEST_F(PodGrantsTest, AreRefusedWhereTheyAreNoGrants) {
  ASSERT_TRUE(WritePodGrant(kUid, grant_, folder_).ok());
  for (const char* text :
       {"", "{}", "[]", R"({"gpus": [], "isolated": true, "containers": {"a": 1}})"}) {
    std::ofstream(folder_ + "/" + kUid) << text;
    EXPECT_EQ(WaitForPodGrant(kUid, kNone, folder_).error().code, Code::kInvalid) << text;
  }
}

}  // namespace
}  // namespace cgpu
