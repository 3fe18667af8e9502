#include "runtime/features.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

TEST(Features, RuncSaysWhatItCan) {
  constexpr const char* kVersion = "runc version 1.5.0\ncommit: v1.5.0\nspec: 1.3.0\n";
  EXPECT_TRUE(WaitsKillably(
      R"({"linux": {"seccomp": {"supportedFlags": ["SECCOMP_FILTER_FLAG_LOG",
                                "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]}}})",
      kVersion));
  // runc 1.1.5 takes no flag at all; others know the name and are built without it.
  EXPECT_FALSE(WaitsKillably(R"({"linux": {"seccomp": {"enabled": true}}})", kVersion));
  EXPECT_FALSE(WaitsKillably(
      R"({"linux": {"seccomp": {"knownFlags": ["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"],
                                "supportedFlags": []}}})",
      kVersion));
}

TEST(Features, CrunIsKnownByItsVersion) {
  EXPECT_TRUE(WaitsKillably("", "crun version 1.8.1\ncommit: f8a096be\n"));
  EXPECT_TRUE(WaitsKillably("", "crun version 1.6\n"));
  EXPECT_TRUE(WaitsKillably("", "crun version 2.0\n"));
  EXPECT_FALSE(WaitsKillably("", "crun version 1.5.9\n"));
  EXPECT_FALSE(WaitsKillably("", "crun version 0.21\n"));
}

TEST(Features, WhatIsNotUnderstoodMeansNo) {
  for (const char* text : {"", "{", "[]", "1", R"({"linux": null})", R"({"linux": {"seccomp": 1}})",
                           R"({"linux": {"seccomp": {"supportedFlags": "x"}}})"}) {
    EXPECT_FALSE(WaitsKillably(text, "runc version 1.5.0")) << text;
  }
  for (const char* version : {"crun version ", "crun version x.y", "crun version 1", "1.8.1"}) {
    EXPECT_FALSE(WaitsKillably("", version)) << version;
  }
}

TEST(Features, AProgramThatIsNotThereIsAnError) {
  EXPECT_EQ(AskForKillableWaits("/nowhere/runc").error().code, Code::kNotFound);
  const auto answer = AskForKillableWaits("true");
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(*answer);
}

}  // namespace
}  // namespace cgpu
