// Tests that an error which ends a channel ends its group, and no other.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "sim/engine/tests/world.h"

namespace cgpu::sim::engine::testing {
namespace {

constexpr std::uint64_t kNowhere = 0x7000;

struct Case {
  std::string name;
  Fault fault;
  std::uint64_t address;
  std::function<void(Client&)> provoke;
};

class Errors : public ::testing::TestWithParam<Case> {};

TEST_P(Errors, EndTheirGroupAlone) {
  World world;
  Client good(world, 1);
  Client bad(world, 2);
  Client beside(world, bad, 3);
  good.Saturate(kMillisecond);
  beside.Submit(beside.Launch(10 * kMillisecond));
  GetParam().provoke(bad);
  RunAll(world, std::array{&good}, {}, 50 * kMillisecond);
  ASSERT_EQ(1U, world.events.faults.size());
  const SeenFault& seen = world.events.faults[0];
  EXPECT_EQ((SeenFault{2, 2, GetParam().fault, GetParam().address, seen.at}), seen);
  EXPECT_EQ(GetParam().fault, bad.Accounting().fault);
  const Duration ran = bad.Accounting().gpu_time_ns;
  const std::uint64_t kernels = good.Accounting().kernels;
  beside.Submit(beside.Launch(kMillisecond));
  static_cast<void>(world.gpu.Schedule(2, false));
  static_cast<void>(world.gpu.Schedule(2, true));
  RunAll(world, std::array{&good}, {}, 50 * kMillisecond);
  EXPECT_EQ(ran, bad.Accounting().gpu_time_ns);
  EXPECT_EQ(0U, bad.ChannelAccountingNow().kernels);
  EXPECT_NEAR(50.0, static_cast<double>(good.Accounting().kernels - kernels), 1.0);
  EXPECT_EQ(1U, world.events.faults.size());
  EXPECT_EQ(std::nullopt, good.Accounting().fault);
}

Words Sent(std::uint32_t subchannel, std::uint32_t method, const Words& data) {
  Words words;
  Method(words, kCompute, 0, {0xc6c0});
  Method(words, kCopy, 0, {0xc6b5});
  Method(words, subchannel, method, data);
  return words;
}

TimedKernel Flagged(std::uint32_t flags) {
  TimedKernel kernel;
  kernel.duration_ns = 100;
  kernel.flags = flags;
  kernel.address = kNowhere;
  return kernel;
}

INSTANTIATE_TEST_SUITE_P(
    Of, Errors,
    ::testing::Values(
        Case{"Release", Fault::kMmu, kNowhere,
             [](Client& c) {
               Words words;
               Semaphore(words, kNowhere, 1, kRelease);
               c.Submit(words);
             }},
        Case{"Acquire", Fault::kMmu, kNowhere,
             [](Client& c) {
               Words words;
               Semaphore(words, kNowhere, 1, kAcquireEqual);
               c.Submit(words);
             }},
        Case{"Pushbuffer", Fault::kMmu, kNowhere,
             [](Client& c) {
               c.PutEntry(Client::Entry(kNowhere, 5));
               c.Ring();
             }},
        Case{"Qmd", Fault::kMmu, kNowhere << 8U,
             [](Client& c) { c.Submit(Client::LaunchQmd(kNowhere << 8U)); }},
        Case{"Program", Fault::kMmu, kNowhere,
             [](Client& c) { c.Submit(Client::LaunchQmd(c.MakeQmd(kNowhere))); }},
        Case{"Kernel", Fault::kMmu, kNowhere,
             [](Client& c) {
               c.Submit(Client::LaunchQmd(c.MakeKernel(Flagged(TimedKernel::kAccesses))));
             }},
        Case{"Trap", Fault::kGraphics, 0,
             [](Client& c) {
               c.Submit(Client::LaunchQmd(c.MakeKernel(Flagged(TimedKernel::kTraps))));
             }},
        Case{"Copy", Fault::kMmu, 0,
             [](Client& c) {
               c.Submit(Sent(kCopy, 0x418, {10}));
               c.Submit(Sent(kCopy, 0x300, {2U | (3U << 7U)}));
             }},
        Case{"InlineData", Fault::kMmu, 0,
             [](Client& c) {
               c.Submit(Sent(kCompute, 0x180, {4, 1}));
               c.Submit(Sent(kCompute, 0x1b0, {1, 5}));
             }},
        Case{"Illegal", Fault::kPushbuffer, 0, [](Client& c) { c.Submit(Sent(0, 0x4, {1})); }},
        Case{"Header", Fault::kPushbuffer, 0, [](Client& c) { c.Submit({6U << 29U}); }},
        Case{"Semaphore", Fault::kPushbuffer, 0, [](Client& c) { c.Submit(Sent(0, 0x6c, {7})); }},
        Case{"Entry", Fault::kPushbuffer, 0,
             [](Client& c) {
               c.PutEntry(std::uint64_t{1} << 32U);
               c.Ring();
             }}),
    [](const ::testing::TestParamInfo<Case>& of) { return of.param.name; });

TEST(Faults, APutBeyondTheRing) {
  World world;
  Client good(world, 1);
  const Client bad(world, 2);
  world.memory.PutPut(2, Client::kEntries);
  EXPECT_FALSE(world.gpu.Ring(2));
  ASSERT_EQ(1U, world.events.faults.size());
  EXPECT_EQ(Fault::kPushbuffer, world.events.faults[0].fault);
  good.Submit(good.Launch(kMillisecond));
  world.Run(2 * kMillisecond);
  EXPECT_EQ(1U, good.Accounting().kernels);
}

TEST(Faults, AnUnmappedSemaphoreThatWasWaitedFor) {
  World world;
  Client client(world, 1);
  Client neighbour(world, 2);
  Words words;
  Semaphore(words, Client::kSemaphore, 1, kAcquireEqual);
  client.Submit(words);
  world.Run(kMillisecond);
  EXPECT_TRUE(client.ChannelAccountingNow().waiting);
  world.memory.unmapped = Client::kSemaphore;
  world.gpu.Poll();
  world.Run(kMillisecond);
  ASSERT_EQ(1U, world.events.faults.size());
  EXPECT_EQ(Fault::kMmu, world.events.faults[0].fault);
  EXPECT_EQ(std::nullopt, neighbour.Accounting().fault);
}

TEST(Faults, AKernelThatDoesNotLeaveInTime) {
  Costs costs;
  costs.context_switch_timeout_ns = 100 * kMillisecond;
  World world(costs);
  Client bad(world, 1);
  Client good(world, 2);
  bad.Submit(bad.Launch(10 * kSecond, TimedKernel::kNotPreemptible));
  world.Run(kSecond);
  EXPECT_TRUE(world.events.faults.empty());  // nobody wants the engine
  good.Submit(good.Launch(kMillisecond));
  world.Run(90 * kMillisecond);
  EXPECT_EQ(0U, good.Accounting().kernels);
  world.Run(15 * kMillisecond);
  ASSERT_EQ(1U, world.events.faults.size());
  EXPECT_EQ(Fault::kContextSwitchTimeout, world.events.faults[0].fault);
  EXPECT_EQ(1U, world.events.faults[0].group);
  EXPECT_EQ(1U, good.Accounting().kernels);
}

TEST(Faults, APreemptionThatFailsTakesUntilTheTimeout) {
  Costs costs;
  costs.context_switch_timeout_ns = 100 * kMillisecond;
  World world(costs);
  Client bad(world, 1);
  bad.Submit(bad.Launch(10 * kSecond, TimedKernel::kNotPreemptible));
  world.Run(kMillisecond);
  EXPECT_EQ(101 * kMillisecond, world.gpu.Preempt(1));
  world.Run(100 * kMillisecond);
  EXPECT_EQ(Fault::kContextSwitchTimeout, bad.Accounting().fault);
}

TEST(Faults, AnInjectedOneIsAsAnyOther) {
  World world;
  Client bad(world, 1);
  const Client beside(world, bad, 3);
  Client good(world, 2);
  bad.Saturate(kMillisecond);
  good.Saturate(kMillisecond);
  RunAll(world, std::array{&bad, &good}, {}, 10 * kMillisecond);
  world.gpu.InjectFault(3, Fault::kMmu);
  RunAll(world, std::array{&good}, {}, 10 * kMillisecond);
  EXPECT_EQ(std::vector<SeenFault>({{1, 3, Fault::kMmu, 0, 10 * kMillisecond}}),
            world.events.faults);
  EXPECT_TRUE(good.Accounting().running);
}

TEST(Faults, AChainOfLaunchesThatBreedsEnds) {
  World world;
  Client client(world, 1);
  TimedKernel kernel;
  kernel.duration_ns = 100;
  const std::uint64_t program = client.Store(kernel);
  // A QMD of layout 5.0 that is its own dependent, twice.
  Words qmd(96);
  const std::uint64_t at = (FlatMemory::kBase + 0x30000);
  qmd[32] = Low(program >> 4U);
  qmd[33] = High(program >> 4U);
  qmd[10] = 0x303U << 16U;  // both: ENABLE, QMD_SCHEDULE
  qmd[12] = qmd[13] = Low(at >> 8U);
  for (std::size_t i = 0; i < qmd.size(); ++i) {
    client.Put(at + (i * 4), qmd[i]);
  }
  Words words;
  Method(words, kCompute, 0, {0xcec0});
  Method(words, kCompute, 0x2b4, {Low(at >> 8U)});
  Method(words, kCompute, 0x2c0, {9});
  client.Submit(words);
  world.Run(kMillisecond);
  EXPECT_EQ(Fault::kGraphics, client.Accounting().fault);
  EXPECT_GT(client.Accounting().kernels, 50U);
  EXPECT_LT(client.Accounting().kernels, 100U);
}

}  // namespace
}  // namespace cgpu::sim::engine::testing
