#include "runtime/seccomp_profile.h"

#include <gtest/gtest.h>

namespace cgpu {
namespace {

constexpr const char* kProfileText = R"({
  "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,
  "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
  "flags": ["SECCOMP_FILTER_FLAG_LOG"],
  "listenerPath": "/run/agent.sock", "listenerMetadata": "abc",
  "syscalls": [
    {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "args": null},
    {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
     "args": [{"index": 5, "value": 18446744073709551615, "valueTwo": 2, "op": "SCMP_CMP_MASKED_EQ"}]}
  ]})";

TEST(SeccompProfile, IsReadWhole) {
  const auto profile = ParseSeccompProfile(kProfileText);
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(profile->default_action, "SCMP_ACT_ERRNO");
  EXPECT_EQ(profile->default_errno_ret, 38U);
  EXPECT_EQ(profile->architectures.size(), 2U);
  EXPECT_EQ(profile->flags, std::vector<std::string>{"SECCOMP_FILTER_FLAG_LOG"});
  EXPECT_EQ(profile->listener_path, "/run/agent.sock");
  EXPECT_EQ(profile->listener_metadata, "abc");
  ASSERT_EQ(profile->rules.size(), 2U);
  EXPECT_EQ(profile->rules[0].names, (std::vector<std::string>{"read", "write"}));
  EXPECT_TRUE(profile->rules[0].args.empty());
  EXPECT_EQ(profile->rules[1].errno_ret, 1U);
  EXPECT_EQ(profile->rules[1].args.at(0),
            (SeccompCondition{5, ~std::uint64_t{0}, 2, "SCMP_CMP_MASKED_EQ"}));
}

TEST(SeccompProfile, ComesBackAsItWas) {
  const auto profile = ParseSeccompProfile(kProfileText);
  ASSERT_TRUE(profile.ok());
  const auto again = ParseSeccompProfile(FormatSeccompProfile(*profile));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *profile);
}

TEST(SeccompProfile, WhatIsNotWellFormedIsRefused) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  for (const std::string& text :
       {std::string(),
        std::string("null"),
        std::string("[]"),
        std::string("{}"),
        deep,
        std::string(R"({"defaultAction": 1})"),
        std::string(R"({"defaultAction": "A", "syscalls": {}})"),
        std::string(R"({"defaultAction": "A", "syscalls": [1]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": [], "action": "B"}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": ["x"]}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": [1], "action": "B"}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": "x", "action": "B"}]})"),
        std::string(R"({"defaultAction": "A", "defaultErrnoRet": -1})"),
        std::string(R"({"defaultAction": "A", "defaultErrnoRet": 4294967296})"),
        std::string(R"({"defaultAction": "A", "architectures": "x"})"),
        std::string(R"({"defaultAction": "A\u0000"})"),
        std::string(R"({"defaultAction": "A", "flags": ["\u0000"]})"),
        std::string(
            R"({"defaultAction": "A", "syscalls": [{"names": ["x\u0000y"], "action": "B"}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": ["x y"], "action": "B"}]})"),
        std::string(
            R"({"defaultAction": "A", "syscalls": [{"names": ["x"], "action": "B\u0000"}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": ["x"], "action": "B",
            "args": [{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": ["x"], "action": "B",
            "args": [{"index": 1, "value": -1, "op": "SCMP_CMP_EQ"}]}]})"),
        std::string(R"({"defaultAction": "A", "syscalls": [{"names": ["x"], "action": "B",
            "args": [{"index": 1, "value": 1, "op": "SCMP_CMP_MAYBE"}]}]})")}) {
    const auto profile = ParseSeccompProfile(text);
    ASSERT_FALSE(profile.ok()) << text;
    EXPECT_EQ(profile.error().code, Code::kInvalid);
    EXPECT_FALSE(profile.error().what.empty());
  }
}

}  // namespace
}  // namespace cgpu
