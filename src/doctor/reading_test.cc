#include "doctor/reading.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

TEST(Reading, TheFirstVersionOfAText) {
  EXPECT_EQ(FirstVersion("NVIDIA Container Toolkit CLI version 1.17.4\ncommit: 9"),
            (Numbers{1, 17, 4}));
  EXPECT_EQ(FirstVersion("podman version 5.2"), (Numbers{5, 2, 0}));
  EXPECT_EQ(FirstVersion("a 7 and 6.18.44-fc-v769"), (Numbers{6, 18, 44}));
  EXPECT_EQ(FirstVersion("v1.37.2"), (Numbers{1, 37, 2}));
  EXPECT_FALSE(FirstVersion("version 7").has_value());
  EXPECT_FALSE(FirstVersion("").has_value());
}

TEST(Reading, ListsNameAFew) {
  EXPECT_EQ(Joined({"a", "b"}), "a, b");
  EXPECT_EQ(Joined({"1", "2", "3", "4", "5", "6", "7", "8"}), "1, 2, 3, 4, 5, 6 and 2 more");
}

TEST(Reading, ProcessesAreKnownByTheirFirstFifteenLetters) {
  FakeHost host;
  host.AddProcess("17", "nvidia-persistenced", "/usr/bin/nvidia-persistenced");
  host.files["/proc/version"] = "Linux";
  EXPECT_EQ(Named(host, "nvidia-persistenced"), std::vector<std::string>{"17"});
  EXPECT_TRUE(Named(host, "nvidia").empty());
}

TEST(Reading, ProgramsAreExecutableFiles) {
  FakeHost host;
  host.Install("/usr/sbin/runc");
  host.files["/usr/bin/crun"] = "text";
  EXPECT_EQ(FindProgram(host, "runc"), "/usr/sbin/runc");
  EXPECT_EQ(FindProgram(host, "/usr/sbin/runc"), "/usr/sbin/runc");
  EXPECT_FALSE(FindProgram(host, "crun").has_value());
}

}  // namespace
}  // namespace cgpu::doctor
