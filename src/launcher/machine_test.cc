#include "launcher/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace cgpu {
namespace {

using testing::HasSubstr;

Result<> Fine() {
  return {};
}
Result<> Nested() {
  return Error{Code::kConflict, 0, "nested", {}};
}
Result<> TooOld() {
  return Error{Code::kUnsupported, 0, "old", {}};
}
Result<> Refused() {
  return Error{Code::kPermission, 0, "refused", {}};
}
Result<> Killed() {
  raise(SIGKILL);
  return {};
}

TEST(CheckMachine, AMachineThatCanIsFine) {
  EXPECT_TRUE(CheckMachine(Fine).ok());
}

TEST(CheckMachine, AnOldKernelIsNamedWithTheOneThatIsNeeded) {
  const auto checked = CheckMachine(TooOld);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, Code::kUnsupported);
  EXPECT_THAT(checked.error().what, HasSubstr("kernel lacks"));
  EXPECT_THAT(checked.error().hint, HasSubstr("Linux 5.19"));
}

TEST(CheckMachine, SlicesDoNotNest) {
  const auto checked = CheckMachine(Nested);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, Code::kConflict);
  EXPECT_THAT(checked.error().what, HasSubstr("inside a `cgpu run` already"));
  EXPECT_FALSE(checked.error().hint.empty());
}

TEST(CheckMachine, EverythingElseIsARefusal) {
  for (const FilterTrial trial : {Refused, Killed}) {
    const auto checked = CheckMachine(trial);
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().code, Code::kPermission);
    EXPECT_THAT(checked.error().hint, HasSubstr("run cgpu on the host"));
  }
}

}  // namespace
}  // namespace cgpu
