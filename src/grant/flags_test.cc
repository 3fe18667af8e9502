#include "grant/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Flags, ComeBeforeTheEnvironment) {
  GrantFlags flags;
  flags.memory = "3GiB";
  flags.environment = {"CGPU_MEM=1GiB", "CGPU_DEVICES=1", "CGPU_COMPUTE=30"};
  const auto request = RequestOf(flags);
  ASSERT_TRUE(request.ok()) << request.error().what;
  EXPECT_EQ(request->origin, "flags");
  ASSERT_EQ(request->resources.memory.size(), 1U);
  EXPECT_EQ(request->resources.memory[0].value, 3072U);
  ASSERT_EQ(request->resources.gpus.size(), 1U);
  EXPECT_THAT(request->resources.gpus[0].devices, ElementsAre("1"));
  EXPECT_EQ(request->compute.percent, 30U);
}

TEST(Flags, OriginSaysWhereTheGrantComesFrom) {
  EXPECT_EQ(RequestOf({})->origin, "default");
  GrantFlags flags;
  flags.environment = {"CGPU_MEM=1GiB"};
  EXPECT_EQ(RequestOf(flags)->origin, "environment");
  flags.units = "2";
  EXPECT_EQ(RequestOf(flags)->origin, "flags");
  EXPECT_EQ(RequestOf(flags)->resources.memory[0].kind, MemoryRequest::Kind::kUnits);
}

TEST(Flags, WhatIsWrongIsRefused) {
  GrantFlags flags;
  flags.memory = "1GiB";
  flags.units = "1";
  EXPECT_THAT(RequestOf(flags).error().what, HasSubstr("both"));
  flags.units.reset();
  flags.memory = "";
  EXPECT_FALSE(RequestOf(flags).ok());
  flags.memory.reset();
  flags.gpus = "device=";
  EXPECT_FALSE(RequestOf(flags).ok());
  flags.gpus.reset();
  flags.environment = {"CGPU_MEM=junk"};
  EXPECT_THAT(RequestOf(flags).error().what, HasSubstr("CGPU_MEM"));
}

}  // namespace
}  // namespace cgpu
