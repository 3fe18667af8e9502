#include "shim/control.h"

#include <gtest/gtest.h>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

constexpr char kFirst[] = "GPU-00000000-0000-0000-0000-000000000001";
constexpr char kSecond[] = "GPU-00000000-0000-0000-0000-000000000002";
constexpr char kUnknown[] = "GPU-00000000-0000-0000-0000-000000000003";

GpuGrant Grant(const char* uuid, unsigned index) {
  GpuGrant grant;
  grant.gpu.uuid = uuid;
  grant.gpu.index = index;
  grant.gpu.memory_bytes = 1024 * kMiB;
  grant.limit_bytes = kLimit;
  return grant;
}

ShimConfig TwoGpus() {
  ShimConfig config;
  config.id = "0123456789ab";
  config.name = "train";
  config.user = 1000;
  config.since = 17;
  config.gpus = {Grant(kFirst, 4), Grant(kSecond, 7)};
  return config;
}

boundary::GpuIds IdsOf(const GpuGrant& grant) {
  boundary::GpuIds ids;
  ids.total_bytes = grant.gpu.memory_bytes;
  return ids;
}

class ControlTest : public testing::Test {
 protected:
  std::vector<std::uint64_t> Limits() {
    const MutexLock lock(accounting_.mutex);
    return {accounting_.ledger.Limit(0), accounting_.ledger.Limit(1)};
  }
  // Allocates memory of the second GPU as `process`.
  void Hold(std::uint64_t bytes, ledger::ProcessKey process) {
    const MutexLock lock(accounting_.mutex);
    ledger::Ledger& ledger = accounting_.ledger;
    const auto handle = static_cast<ledger::Handle>(0xc1e00000 + process);
    auto reserved = ledger.ReserveClient();
    const auto client = ledger.AddClient(*reserved, handle, 0, process);
    auto memory = ledger.Reserve(ledger::Kind::kMemory, 1, bytes);
    ASSERT_TRUE(memory.ok());
    ledger::NewObject object;
    object.parent.handle = handle;
    object.handle = 1;
    object.gpu = 1;
    object.actual_bytes = bytes;
    ASSERT_TRUE(ledger.AddObject(*memory, *client, object).ok());
  }

  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  Fate fate_;
  FakeDriver calls_{fate_};
  FakeLookup callers_{fate_};
  const std::unique_ptr<Driver> driver_ = std::move(*Driver::Open(calls_, abi_, "/dev/zero", {}));
  const ShimConfig config_ = TwoGpus();
  Accounting accounting_{config_, abi_, {IdsOf(config_.gpus[0]), IdsOf(config_.gpus[1])}};
  Scheduler scheduler_{2, nullptr, [](std::size_t, std::uint64_t) { return std::nullopt; }};
  ContainerControl control_{config_, accounting_, scheduler_, driver_.get(), callers_};
};

TEST_F(ControlTest, ALimitIsThatOfOneGpuOrOfAll) {
  EXPECT_TRUE(control_.SetLimit(kSecond, 8 * kMiB).ok());
  EXPECT_EQ(Limits(), (std::vector<std::uint64_t>{kLimit, 8 * kMiB}));
  EXPECT_TRUE(control_.SetLimit(kFirst, 4 * kMiB).ok());
  EXPECT_EQ(Limits(), (std::vector<std::uint64_t>{4 * kMiB, 8 * kMiB}));
  EXPECT_TRUE(control_.SetLimit("*", 16 * kMiB).ok());
  EXPECT_EQ(Limits(), (std::vector<std::uint64_t>{16 * kMiB, 16 * kMiB}));
}

TEST_F(ControlTest, ALimitOfAnUnknownGpuChangesNothing) {
  for (const char* uuid : {kUnknown, ""}) {
    const auto set = control_.SetLimit(uuid, 8 * kMiB);
    ASSERT_FALSE(set.ok());
    EXPECT_EQ(set.error().code, Code::kNotFound);
    EXPECT_EQ(set.error().what, std::string("the container has no GPU ") + uuid);
  }
  EXPECT_EQ(Limits(), (std::vector<std::uint64_t>{kLimit, kLimit}));
}

TEST_F(ControlTest, AllGpusOfNoneAreUnknown) {
  const ShimConfig none;
  Accounting accounting(none, abi_, {});
  Scheduler scheduler(0, nullptr, [](std::size_t, std::uint64_t) { return std::nullopt; });
  ContainerControl control(none, accounting, scheduler, driver_.get(), callers_);
  const auto set = control.SetLimit("*", kMiB);
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().code, Code::kNotFound);
}

TEST_F(ControlTest, ALimitBelowUseStopsGrowth) {
  Hold(32 * kMiB, 1);
  EXPECT_TRUE(control_.SetLimit(kSecond, 8 * kMiB).ok());
  const ContainerStatus status = control_.Status();
  EXPECT_EQ(status.gpus[1].used_bytes, 32 * kMiB);
  EXPECT_EQ(status.gpus[1].limit_bytes, 8 * kMiB);
  const MutexLock lock(accounting_.mutex);
  EXPECT_FALSE(accounting_.ledger.Reserve(ledger::Kind::kMemory, 1, kMiB).ok());
}

// The quotas of a GPU's pools are in proportion to its limit.
TEST_F(ControlTest, ALimitBringsItsQuotas) {
  const auto bar1 = [&] {
    const MutexLock lock(accounting_.mutex);
    return accounting_.ledger.Bar1Quota(1);
  };
  {
    boundary::GpuSizes sizes;
    sizes.bar1_bytes = 256 * kMiB;
    const MutexLock lock(accounting_.mutex);
    accounting_.boundary.SetSizes(1, sizes);
  }
  const std::uint64_t before = bar1();
  EXPECT_TRUE(control_.SetLimit(kSecond, kLimit / 4).ok());
  EXPECT_LT(bar1(), before);
}

TEST_F(ControlTest, StatusNamesTheContainerAndItsGpus) {
  Hold(3 * kMiB, 1);
  {
    const MutexLock lock(accounting_.mutex);
    accounting_.ledger.CountDenial(1);
  }
  const ContainerStatus status = control_.Status();
  EXPECT_EQ(status.id, "0123456789ab");
  EXPECT_EQ(status.name, "train");
  EXPECT_EQ(status.user, 1000U);
  EXPECT_EQ(status.since, 17U);
  EXPECT_EQ(status.shim, static_cast<unsigned>(getpid()));
  ASSERT_EQ(status.gpus.size(), 2U);
  EXPECT_EQ(status.gpus[0].uuid, kFirst);
  EXPECT_EQ(status.gpus[0].host_index, 4U);
  EXPECT_EQ(status.gpus[0].used_bytes, 0U);
  const GpuStatus& second = status.gpus[1];
  EXPECT_EQ(second.uuid, kSecond);
  EXPECT_EQ(second.index, 1U);
  EXPECT_EQ(second.host_index, 7U);
  EXPECT_EQ(second.limit_bytes, kLimit);
  EXPECT_EQ(second.used_bytes, 3 * kMiB);
  EXPECT_EQ(second.peak_bytes, 3 * kMiB);
  EXPECT_EQ(second.denied, 1U);
}

TEST_F(ControlTest, MemoryIsThatOfProcessesThatAreThere) {
  constexpr ledger::ProcessKey kGone = 9;  // not among the callers
  Hold(3 * kMiB, 1);
  Hold(5 * kMiB, kGone);
  const auto memory = control_.MemoryOf(kSecond);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->limit_bytes, kLimit);
  EXPECT_EQ(memory->used_bytes, 8 * kMiB);
  ASSERT_EQ(memory->processes.size(), 1U);
  EXPECT_EQ(memory->processes[0].pid, static_cast<unsigned>(getpid()));
  EXPECT_EQ(memory->processes[0].bytes, 3 * kMiB);
  EXPECT_TRUE(control_.MemoryOf(kFirst)->processes.empty());
  EXPECT_EQ(control_.MemoryOf(kUnknown).error().code, Code::kNotFound);
}

TEST_F(ControlTest, AnOrderIsThatOfOneGpu) {
  const governor::Order order{.slice_us = 2'000, .duty = {}};
  EXPECT_TRUE(control_.SetOrder(kSecond, order, {}).ok());
  const auto saved = scheduler_.Save();
  EXPECT_EQ(saved[0].order, governor::Order{});
  EXPECT_EQ(saved[1].order, order);
  for (const char* uuid : {kUnknown, "*"}) {
    EXPECT_EQ(control_.SetOrder(uuid, {}, {}).error().code, Code::kNotFound);
  }
  EXPECT_EQ(scheduler_.Save()[1].order, order);
}

TEST_F(ControlTest, AHelperStaysWhileAnOrderNeedsIt) {
  const governor::Order high{.slice_us = 2'000, .duty = {}, .high = true};
  EXPECT_EQ(control_.SetOrder(kUnknown, high, UniqueFd(dup(0))).error().code, Code::kNotFound);
  EXPECT_EQ(driver_->Save().helper, -1);
  UniqueFd helper(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const int number = helper.get();
  EXPECT_TRUE(control_.SetOrder(kFirst, high, std::move(helper)).ok());
  EXPECT_EQ(driver_->Save().helper, number);
  EXPECT_TRUE(control_.SetOrder(kSecond, {}, {}).ok());
  EXPECT_EQ(driver_->Save().helper, number) << "the first GPU still needs it";
  EXPECT_TRUE(control_.SetOrder(kFirst, {}, {}).ok());
  EXPECT_EQ(driver_->Save().helper, -1);
}

}  // namespace
}  // namespace cgpu::shim
