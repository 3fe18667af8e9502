#include "runtime/container_state.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cgpu {
namespace {

// As runc 1.1 and crun 1.8 write them, shortened.
constexpr const char* kRunc = R"({"id":"c1","init_process_pid":17,"config":{"rootfs":"/b/rootfs",)"
                              R"("labels":["io.x=1","bundle=/run/b"]}})";
constexpr const char* kCrun = R"({"pid":17,"bundle":"/run/b","rootfs":"/run/b/rootfs"})";

TEST(ContainerState, NamesTheBundle) {
  EXPECT_EQ(BundleInRuncState(kRunc).value_or(""), "/run/b");
  EXPECT_EQ(BundleInCrunStatus(kCrun).value_or(""), "/run/b");
}

TEST(ContainerState, OfAnotherFormNamesNone) {
  for (const char* text :
       {"", "x", "[]", "{}", R"({"config":1})", R"({"config":{}})", R"({"config":{"labels":1}})",
        R"({"config":{"labels":[1,"a=b"]}})", R"({"bundle":1})", "null"}) {
    EXPECT_FALSE(BundleInRuncState(text).ok()) << text;
    EXPECT_FALSE(BundleInCrunStatus(text).ok()) << text;
  }
}

TEST(ContainerState, IsFoundWhereTheRuntimeKeepsIt) {
  char name[] = "/tmp/cgpu-container-state-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string folder = name;
  namespace fs = std::filesystem;
  fs::create_directories(folder + "/a");
  fs::create_directories(folder + "/b");
  std::ofstream(folder + "/a/state.json") << kRunc;
  std::ofstream(folder + "/b/status") << kCrun;
  EXPECT_EQ(BundleOf(folder, "a").value_or(""), "/run/b");
  EXPECT_EQ(BundleOf(folder, "b").value_or(""), "/run/b");
  for (const char* id : {"c", "", ".", "..", "../x/a", "a/"}) {
    EXPECT_FALSE(BundleOf(folder, id).ok()) << id;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace cgpu
