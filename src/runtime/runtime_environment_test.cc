#include "runtime/runtime_environment.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

using Words = std::vector<std::string>;

TEST(RuntimeEnvironment, WhatChangesRuntimesIsLeftOut) {
  EXPECT_EQ(RuntimeEnvironment({"RUN_OCI_SECCOMP_RECEIVER=/x", "LD_PRELOAD=/x", "LD_LIBRARY_PATH=.",
                                "GLIBC_TUNABLES=x", "_LIBCONTAINER_STATEDIR=/x",
                                "XDG_CONFIG_HOME=/x", "WASMEDGE_PLUGIN_PATH=/x", "GODEBUG=x",
                                "CGPU_MEM=1GiB", "PATHS=/x", "no value", "=", ""}),
            Words{kPlainPath});
}

TEST(RuntimeEnvironment, WhatRuntimesNeedStays) {
  const Words needed = {"PATH=/a:/b",
                        "HOME=/h",
                        "XDG_RUNTIME_DIR=/run/user/1",
                        "DBUS_SESSION_BUS_ADDRESS=unix:path=/x",
                        "_CONTAINERS_USERNS_CONFIGURED=done",
                        "_CONTAINERS_ROOTLESS_UID=1000",
                        "NOTIFY_SOCKET=/n",
                        "LISTEN_FDS=1",
                        "LISTEN_PID=7"};
  EXPECT_EQ(RuntimeEnvironment(needed), needed);
}

TEST(RuntimeEnvironment, ProgramsAreNotLookedForInTheWorkingDirectory) {
  EXPECT_EQ(RuntimeEnvironment({"PATH=.:/a::bin:/b:"}), Words{"PATH=/a:/b"});
  EXPECT_EQ(RuntimeEnvironment({"PATH=.:"}), Words{kPlainPath});
}

}  // namespace
}  // namespace cgpu
