#include "run/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace cgpu {
namespace {

using testing::HasSubstr;

using sandbox::FilterOptions;

Result<> Fine(const FilterOptions& /*options*/) {
  return {};
}
Result<> Nested(const FilterOptions& /*options*/) {
  return Error{Code::kConflict, 0, "nested", {}};
}
Result<> TooOld(const FilterOptions& /*options*/) {
  return Error{Code::kUnsupported, 0, "old", {}};
}
Result<> Refused(const FilterOptions& /*options*/) {
  return Error{Code::kPermission, 0, "refused", {}};
}
Result<> NotKillable(const FilterOptions& options) {
  return options.killable_wait ? TooOld(options) : Result<>();
}
Result<> Killed(const FilterOptions& /*options*/) {
  raise(SIGKILL);
  return {};
}

TEST(CheckMachine, AMachineThatCanIsFine) {
  const auto checked = CheckMachine(Fine);
  ASSERT_TRUE(checked.ok());
  EXPECT_TRUE(checked->killable_wait);
}

TEST(CheckMachine, WithoutKillableWaitsItGoesOnWithoutThem) {
  const auto checked = CheckMachine(NotKillable);
  ASSERT_TRUE(checked.ok());
  EXPECT_FALSE(checked->killable_wait);
}

TEST(CheckMachine, AnOldKernelIsNamedWithTheOneThatIsNeeded) {
  const auto checked = CheckMachine(TooOld);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, Code::kUnsupported);
  EXPECT_THAT(checked.error().what, HasSubstr("kernel lacks"));
  EXPECT_THAT(checked.error().hint, HasSubstr("Linux 5.10"));
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
