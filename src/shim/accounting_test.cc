#include "shim/accounting.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "boundary/quotas.h"
#include "shim/testing.h"

namespace cgpu::shim {
namespace {

ShimConfig OneGpu(std::uint64_t limit) {
  GpuGrant grant;
  grant.gpu.memory_bytes = 64 * kMiB;
  grant.limit_bytes = limit;
  ShimConfig config;
  config.gpus = {grant};
  return config;
}

class AccountingTest : public testing::Test {
 protected:
  std::unique_ptr<Accounting> Make(const ShimConfig& config) const {
    return std::make_unique<Accounting>(config, abi_,
                                        std::vector<boundary::GpuIds>(config.gpus.size()));
  }
  static bool Reported(const Accounting& accounting) {
    pollfd event{accounting.refusals(), POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
};

TEST_F(AccountingTest, EveryRefusalIsCountedAndReported) {
  const auto accounting = Make(OneGpu(kMiB));
  EXPECT_FALSE(Reported(*accounting));
  accounting->CountRefused(boundary::Reason::kQuota, "one");
  EXPECT_TRUE(Reported(*accounting));
  accounting->ResetRefusals();
  EXPECT_FALSE(Reported(*accounting));
  accounting->CountRefused(boundary::Reason::kQuota, "one");
  accounting->CountRefused(boundary::Reason::kInvalid, "other");
  EXPECT_TRUE(Reported(*accounting));
  EXPECT_EQ(accounting->Refused(),
            (std::map<std::string, std::uint64_t>{{"one", 2}, {"other", 1}}));
  EXPECT_EQ(accounting->counters.Read().refused,
            (std::array<std::uint64_t, kRefusalReasons.size()>{0, 2, 0, 1, 0, 0}));
}

TEST_F(AccountingTest, ReportsWhatTheBoundaryRefusesAndNothingElse) {
  const auto accounting = Make(OneGpu(kMiB));
  const MutexLock lock(accounting->mutex);
  accounting->NoteRefusals();
  EXPECT_FALSE(Reported(*accounting));
  accounting->boundary.CountRefused("one");
  EXPECT_FALSE(Reported(*accounting));
  accounting->NoteRefusals();
  EXPECT_TRUE(Reported(*accounting));
}

TEST_F(AccountingTest, ChannelsAreListedWhenTheyHaveChanged) {
  const auto accounting = Make(OneGpu(kMiB));
  std::uint64_t changes = 0;
  {
    const MutexLock lock(accounting->mutex);
    changes = accounting->ledger.ChannelChanges();
  }
  EXPECT_FALSE(accounting->ChannelsOf(0, changes).has_value());
  const auto listed = accounting->ChannelsOf(0, changes + 1);
  ASSERT_TRUE(listed.has_value());
  EXPECT_EQ(listed->changes, changes);
  EXPECT_TRUE(listed->all.empty());
}

TEST_F(AccountingTest, ASuccessorKnowsLimitsAndRefusals) {
  const ShimConfig config = OneGpu(kMiB);
  const auto before = Make(config);
  before->CountRefused(boundary::Reason::kQuota, "one");
  ServerState state;
  {
    const MutexLock lock(before->mutex);
    ASSERT_TRUE(before->ledger.SetLimit(0, 2 * kMiB).ok());
  }
  before->Save(state);
  const auto after = Make(config);
  ASSERT_TRUE(after->Load(state, config).ok());
  EXPECT_EQ(after->Refused(), before->Refused());
  EXPECT_EQ(after->counters.Read(), before->counters.Read());
  const MutexLock lock(after->mutex);
  EXPECT_EQ(after->ledger.Limit(0), 2 * kMiB);
}

TEST_F(AccountingTest, TakesNoLedgerThatPassesTheGpu) {
  const ShimConfig config = OneGpu(kMiB);
  for (const std::uint64_t beyond : {0U, 1U}) {
    const auto before = Make(config);
    ServerState state;
    {
      const MutexLock lock(before->mutex);
      ASSERT_TRUE(before->ledger.SetLimit(0, config.gpus[0].gpu.memory_bytes + beyond).ok());
    }
    before->Save(state);
    EXPECT_EQ(Make(config)->Load(state, config).ok(), beyond == 0);
  }
}

TEST_F(AccountingTest, TakesNoStateThatIsNone) {
  const ShimConfig config = OneGpu(kMiB);
  ServerState good;
  Make(config)->Save(good);
  ASSERT_TRUE(Make(config)->Load(good, config).ok());
  for (std::string ServerState::* part : {&ServerState::ledger, &ServerState::boundary}) {
    ServerState bad = good;
    (bad.*part).pop_back();
    EXPECT_FALSE(Make(config)->Load(bad, config).ok());
  }
}

}  // namespace
}  // namespace cgpu::shim
