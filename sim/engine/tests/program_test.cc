// Tests of what channels execute: entries, method headers, semaphores, launches, inline data.
#include <gtest/gtest.h>

#include <array>

#include "sim/engine/tests/world.h"

namespace cgpu::sim::engine::testing {
namespace {

constexpr std::uint64_t kSemaphore = Client::kSemaphore;
constexpr std::uint64_t kData = Client::kData;

class Program : public ::testing::Test {
 protected:
  void Do(const Words& words) {
    client.Submit(words);
    world.Run(kMillisecond);
  }
  World world;
  Client client{world, 1};
};

TEST_F(Program, AReleaseWritesPayloadAndTime) {
  Words words;
  client.Put<std::uint64_t>(kSemaphore, ~std::uint64_t{0});
  Semaphore(words, kSemaphore, 0x1122334455667788, kRelease);
  Do(words);
  EXPECT_EQ(0xffffffff55667788, client.Get<std::uint64_t>(kSemaphore));
  words.clear();
  Semaphore(words, kSemaphore, 0x1122334455667788, kRelease | kWide | kTimestamp);
  Do(words);
  EXPECT_EQ(0x1122334455667788U, client.Get<std::uint64_t>(kSemaphore));
  const auto stamp = client.Get<std::uint64_t>(kSemaphore + 8);
  EXPECT_GE(stamp, kMillisecond);
  EXPECT_LE(stamp, kMillisecond + 2000);
  words.clear();
  Semaphore(words, kSemaphore, 0x1122334455667788, kRelease | kTimestamp);
  Do(words);
  EXPECT_EQ(0x55667788U, client.Get<std::uint64_t>(kSemaphore));
}

TEST_F(Program, AnAcquireWaitsForWhatItNames) {
  struct Case {
    std::uint32_t operation;
    std::uint64_t payload;
    std::uint64_t too_early;
    std::uint64_t there;
  };
  constexpr std::uint32_t kStrict = 2U | kSwitch;
  const std::array cases{
      Case{kAcquireEqual, 5, 6, 5},
      Case{kStrict, 5, 4, 5},
      Case{kStrict | kWide, std::uint64_t{1} << 40U, 0xffffffff, std::uint64_t{1} << 41U},
      Case{kAcquireCircular, 0xfffffff0, 0xffffffe0, 3},  // it went round
      Case{kAcquireCircular | kWide, 0xfffffff0, 3, 0xfffffff0},
      Case{kAcquireAnd, 6, 9, 2},
      Case{kAcquireNor, 0xfffffffb, 4, 0},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.operation);
    client.Put<std::uint64_t>(kSemaphore, each.too_early);
    client.Put<std::uint32_t>(kData, 0);
    Words words;
    Semaphore(words, kSemaphore, each.payload, each.operation);
    Semaphore(words, kData, 1, kRelease);
    Do(words);
    EXPECT_TRUE(client.ChannelAccountingNow().waiting);
    EXPECT_TRUE(world.gpu.Waits());
    EXPECT_EQ(std::nullopt, world.gpu.NextEvent());
    EXPECT_FALSE(world.gpu.Poll());
    world.Run(kMillisecond);
    EXPECT_EQ(0U, client.Get<std::uint32_t>(kData));
    client.Put<std::uint64_t>(kSemaphore, each.there);
    EXPECT_TRUE(world.gpu.Poll());
    world.Run(kMillisecond);
    EXPECT_EQ(1U, client.Get<std::uint32_t>(kData));
    EXPECT_FALSE(world.gpu.Waits());
  }
}

TEST_F(Program, AReductionChangesWhatIsThere) {
  struct Case {
    std::uint32_t operation;
    std::uint32_t old;
    std::uint32_t payload;
    std::uint32_t result;
  };
  constexpr std::uint32_t kUnsigned = 1U << 31U;
  const auto reduce = [](std::uint32_t number) { return kReduce | (number << 27U); };
  const std::array cases{
      Case{reduce(0), 3, 0xffffffff, 0xffffffff},
      Case{reduce(0) | kUnsigned, 3, 0xffffffff, 3},
      Case{reduce(1), 3, 0xffffffff, 3},
      Case{reduce(2), 6, 3, 5},
      Case{reduce(3), 6, 3, 2},
      Case{reduce(4), 6, 3, 7},
      Case{reduce(5), 0xffffffff, 3, 2},
      Case{reduce(6), 6, 7, 7},
      Case{reduce(6), 7, 7, 0},
      Case{reduce(7), 0, 7, 7},
      Case{reduce(7), 5, 7, 4},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.operation);
    client.Put(kSemaphore, each.old);
    Words words;
    Semaphore(words, kSemaphore, each.payload, each.operation);
    Do(words);
    EXPECT_EQ(each.result, client.Get<std::uint32_t>(kSemaphore));
  }
}

TEST_F(Program, SemaphoresOfOlderClassesWorkToo) {
  client.Put<std::uint32_t>(kSemaphore, 3);
  constexpr std::uint32_t kGeq = 4;
  constexpr std::uint32_t kFourBytes = 1U << 24U;
  Words words;
  Method(words, 0, 0x10, {High(kSemaphore), Low(kSemaphore), 4, kGeq});
  Method(words, 0, 0x10, {High(kData), Low(kData), 7, 2 | kFourBytes});
  Do(words);
  EXPECT_EQ(0U, client.Get<std::uint32_t>(kData));
  client.Put<std::uint32_t>(kSemaphore, 5);
  world.gpu.Poll();
  world.Run(kMillisecond);
  EXPECT_EQ(7U, client.Get<std::uint64_t>(kData));
  EXPECT_EQ(0U, client.Get<std::uint64_t>(kData + 8));
}

TEST_F(Program, HeadersOfAllKindsAreUnderstood) {
  constexpr std::uint32_t kIncrementOnce = 5;
  constexpr std::uint32_t kSame = 3;
  // Five words by the first kind are what Semaphore() sends; here one register at a time.
  Words words;
  Method(words, 0, 0x5c, {Low(kSemaphore)}, kSame);
  Method(words, 0, 0x60, {High(kSemaphore)}, kIncrementOnce);
  words.push_back((4U << 29U) | (0x321U << 16U) | (0x64 >> 2U));  // immediate: the payload
  Method(words, 0, 0x68, {0, kRelease}, kIncrementOnce);
  // By the old encoding of an incrementing method, and words of zero: nothing.
  words.push_back(0);
  words.push_back((5U << 18U) | 0x5cU);
  words.insert(words.end(), {Low(kData), High(kData), 0x99, 0, kRelease});
  // Behind the end of the segment stands what would be a fault.
  words.push_back(7U << 29U);
  words.push_back(6U << 29U);
  Do(words);
  EXPECT_EQ(0x321U, client.Get<std::uint32_t>(kSemaphore));
  EXPECT_EQ(0x99U, client.Get<std::uint32_t>(kData));
  EXPECT_TRUE(world.events.faults.empty());
}

TEST_F(Program, AMethodMayBeginInOneEntryAndEndInTheNext) {
  Words words;
  Semaphore(words, kSemaphore, 5, kRelease);
  client.Push({words.begin(), words.begin() + 3});
  client.Submit({words.begin() + 3, words.end()});
  world.Run(kMillisecond);
  EXPECT_EQ(5U, client.Get<std::uint32_t>(kSemaphore));
  EXPECT_EQ(2U, world.memory.GetGet(1));
  EXPECT_EQ(2U, client.ChannelAccountingNow().gp_get);
}

TEST_F(Program, LongPushbuffersAreReadInPieces) {
  Words words(5000, 0);
  Semaphore(words, kSemaphore, 5, kRelease);
  Do(words);
  EXPECT_EQ(5U, client.Get<std::uint32_t>(kSemaphore));
}

TEST_F(Program, AnInterruptIsTold) {
  Words words;
  Method(words, 0, 0x20, {0});
  Do(words);
  EXPECT_EQ(std::vector<ChannelKey>{1}, world.events.interrupts);
}

TEST_F(Program, WhatIsNotKnownIsIgnoredAndCounted) {
  Words words;
  Method(words, kCompute, 0, {0xc6c0});
  Method(words, kCompute, 0x1698, {1});
  Method(words, 7, 0x400, {1});  // nothing was bound there
  Method(words, 0, 0xfc, {1});
  Semaphore(words, kSemaphore, 5, kRelease);
  Do(words);
  EXPECT_EQ(5U, client.Get<std::uint32_t>(kSemaphore));
  EXPECT_EQ(3U, client.ChannelAccountingNow().ignored_methods);
}

TEST_F(Program, AKernelTakesItsTimeAndThenReleases) {
  TimedKernel kernel;
  kernel.duration_ns = 5 * kMillisecond;
  client.Submit(Client::LaunchQmd(client.MakeKernel(kernel, kSemaphore, 77)));
  world.Run(5 * kMillisecond);
  EXPECT_EQ(0U, client.Get<std::uint32_t>(kSemaphore));
  world.Run(kMillisecond);
  EXPECT_EQ(77U, client.Get<std::uint32_t>(kSemaphore));
  EXPECT_NEAR(5.04 * kMillisecond, static_cast<double>(client.Get<std::uint64_t>(kSemaphore + 8)),
              1000.0);
  EXPECT_EQ(1U, client.Accounting().kernels);
}

TEST_F(Program, WhatFollowsALaunchWaitsForItsEnd) {
  Words words = client.Launch(5 * kMillisecond);
  Semaphore(words, kSemaphore, 1, kRelease);
  client.Submit(words);
  world.Run(5 * kMillisecond);
  EXPECT_EQ(0U, client.Get<std::uint32_t>(kSemaphore));
  world.Run(kMillisecond);
  EXPECT_EQ(1U, client.Get<std::uint32_t>(kSemaphore));
}

TEST_F(Program, AnyOtherProgramRunsForATimeOfItsOwn) {
  const std::uint64_t program = client.Store(Words{1, 2, 3, 4, 5, 6, 7, 8});
  client.Submit(Client::LaunchQmd(client.MakeQmd(program, kSemaphore, 1)));
  world.Run(60 * kMicrosecond);
  EXPECT_EQ(1U, client.Get<std::uint32_t>(kSemaphore));
  EXPECT_NEAR(10'000.0, static_cast<double>(client.Accounting().gpu_time_ns), 500.0);
}

TEST_F(Program, KernelsThatDependOnOthersFollowThem) {
  TimedKernel kernel;
  kernel.duration_ns = kMillisecond;
  const std::uint64_t last = client.MakeKernel(kernel, kSemaphore, 3);
  const std::uint64_t middle = client.MakeKernel(kernel);
  const std::uint64_t first = client.MakeKernel(kernel);
  const auto chain = [&](std::uint64_t qmd, std::uint64_t next) {
    client.Put(qmd + (15 * 4), Low(next >> 8U));
    client.Put<std::uint32_t>(qmd + (16 * 4), 1U | (1U << 1U));  // ENABLE, QMD_SCHEDULE
  };
  chain(first, middle);
  chain(middle, last);
  client.Submit(Client::LaunchQmd(first));
  world.Run(4 * kMillisecond);
  EXPECT_EQ(3U, client.Accounting().kernels);
  EXPECT_EQ(3U, client.Get<std::uint32_t>(kSemaphore));
  chain(last, first);  // for ever, and yet time goes on
  client.Submit(Client::LaunchQmd(first));
  world.Run(100 * kMillisecond);
  EXPECT_NEAR(103.0, static_cast<double>(client.Accounting().kernels), 1.0);
}

TEST_F(Program, DataComesWithTheMethods) {
  Words words;
  Method(words, kCompute, 0, {0xc6c0});
  Method(words, kCompute, 0x180, {6, 2});                           // two lines of six bytes
  Method(words, kCompute, 0x188, {High(kData), Low(kData), 0x10});  // 16 bytes apart
  Method(words, kCompute, 0x1dc, {High(kSemaphore), Low(kSemaphore), 9});
  Method(words, kCompute, 0x1b0, {1U | (2U << 4U) | (1U << 12U)});  // pitch, with a release
  Method(words, kCompute, 0x1b4, {0x04030201, 0xffff0605, 0x14131211, 0xffff1615}, 3);
  Do(words);
  EXPECT_EQ(0x0000060504030201U, client.Get<std::uint64_t>(kData));
  EXPECT_EQ(0x0000161514131211U, client.Get<std::uint64_t>(kData + 16));
  EXPECT_EQ(9U, client.Get<std::uint64_t>(kSemaphore));
}

TEST_F(Program, AReportIsReleased) {
  Words words;
  Method(words, kCompute, 0, {0xc6c0});
  Method(words, kCompute, 0x1b00, {High(kSemaphore), Low(kSemaphore), 5, 1U << 20U});
  Do(words);
  EXPECT_EQ(5U, client.Get<std::uint64_t>(kSemaphore));
  EXPECT_NE(0U, client.Get<std::uint64_t>(kSemaphore + 8));
  EXPECT_EQ(1U, world.events.interrupts.size());
}

TEST_F(Program, APictureIsDecodedInNoTimeOfTheGraphicsEngine) {
  Client video(world, 2, 19);
  Words words;
  Method(words, 4, 0, {0xc9b0});
  Method(words, 4, 0x300, {0});
  Method(words, 4, 0x240, {High(kSemaphore), Low(kSemaphore), 4});
  Method(words, 4, 0x304, {1U | (1U << 24U)});
  video.Submit(words);
  world.Run(kMillisecond);
  EXPECT_EQ(4U, video.Get<std::uint64_t>(kSemaphore));
  EXPECT_GE(video.Accounting().gpu_time_ns, 10'000U);
  EXPECT_EQ(0U, client.Accounting().gpu_time_ns);
}

// In one group, in two of one runlist, on two engines.
TEST_F(Program, SemaphoresOrderTwoChannels) {
  for (const int how : {0, 1, 2}) {
    SCOPED_TRACE(how);
    World two;
    Client producer(two, 1);
    Client consumer = how == 0 ? Client(two, producer, 2)
                               : Client(two, producer, 2, how == 1 ? kGraphics : kCopyEngine);
    Words wait;
    Semaphore(wait, kSemaphore, 1, kAcquireEqual);
    Semaphore(wait, kData, 1, kRelease | kTimestamp);
    consumer.Submit(wait);
    two.Run(kMillisecond);
    EXPECT_TRUE(consumer.ChannelAccountingNow().waiting);
    Words work = producer.Launch(5 * kMillisecond);
    Semaphore(work, kSemaphore, 1, kRelease | kTimestamp);
    producer.Submit(work);
    two.Run(5 * kMillisecond);
    EXPECT_EQ(0U, consumer.Get<std::uint32_t>(kData));
    two.Run(5 * kMillisecond);
    EXPECT_EQ(1U, consumer.Get<std::uint32_t>(kData));
    const auto released = consumer.Get<std::uint64_t>(kSemaphore + 8);
    const auto seen = consumer.Get<std::uint64_t>(kData + 8);
    EXPECT_GE(released, 6 * kMillisecond);
    EXPECT_GE(seen, released);
    EXPECT_LE(seen, released + 40 * kMicrosecond + 1000);  // a switch, where groups differ
  }
}

TEST_F(Program, AWaitingGroupYieldsAndIsLookedAtWhenItsTurnComes) {
  Client busy(world, 2);
  world.gpu.SetTimeslice(2, 2000);
  busy.Saturate(10 * kMillisecond);
  Words words;
  Semaphore(words, kSemaphore, 1, kAcquireEqual);
  Semaphore(words, kData, 1, kRelease);
  Do(words);
  RunAll(world, std::array{&busy}, {}, 20 * kMillisecond);
  const std::uint64_t switches = client.Accounting().switches;
  RunAll(world, std::array{&busy}, {}, 20 * kMillisecond);
  EXPECT_EQ(switches, client.Accounting().switches);  // to look costs nothing
  client.Put<std::uint32_t>(kSemaphore, 1);
  world.gpu.Poll();
  RunAll(world, std::array{&busy}, {}, 3 * kMillisecond);
  EXPECT_EQ(1U, client.Get<std::uint32_t>(kData));
  EXPECT_EQ(switches + 1, client.Accounting().switches);
}

// By NVIDIA/open-gpu-doc manuals/ampere/ga100/dev_pbdma.ref.txt, "Semaphore switch option".
TEST_F(Program, AnAcquireThatDoesNotSwitchKeepsTheTimeSlice) {
  Client busy(world, 2);
  world.gpu.SetTimeslice(1, 6000);
  world.gpu.SetTimeslice(2, 2000);
  Words words;
  Semaphore(words, kSemaphore, 1, kHoldEqual);
  Semaphore(words, kData, 1, kRelease);
  Do(words);
  busy.Saturate(10 * kMillisecond);
  RunAll(world, std::array{&busy}, {}, 800 * kMillisecond);
  const auto held = static_cast<double>(client.Accounting().gpu_time_ns);
  const auto ran = static_cast<double>(busy.Accounting().gpu_time_ns);
  EXPECT_NEAR(0.75, held / (held + ran), 0.01);
  EXPECT_EQ(0U, client.Get<std::uint32_t>(kData));
  client.Put<std::uint32_t>(kSemaphore, 1);
  world.gpu.Poll();
  RunAll(world, std::array{&busy}, {}, 10 * kMillisecond);
  EXPECT_EQ(1U, client.Get<std::uint32_t>(kData));
  const std::uint64_t now = client.Accounting().gpu_time_ns;
  RunAll(world, std::array{&busy}, {}, 50 * kMillisecond);
  EXPECT_EQ(now, client.Accounting().gpu_time_ns) << "it has nothing more to do";
}

TEST_F(Program, AChannelThatHoldsTheEngineLetsTheOthersOfItsGroupRun) {
  Client beside(world, client, 3);
  Words words;
  Semaphore(words, kSemaphore, 1, kHoldEqual);
  Semaphore(words, kData, 1, kRelease | kTimestamp);
  Do(words);
  EXPECT_TRUE(client.ChannelAccountingNow().waiting);
  beside.Submit(beside.Launch(kMillisecond));
  world.Run(2 * kMillisecond);
  EXPECT_EQ(1U, beside.ChannelAccountingNow().kernels);
  client.Put<std::uint32_t>(kSemaphore, 1);
  world.gpu.Poll();
  world.Run(10 * kMicrosecond);
  EXPECT_EQ(1U, client.Get<std::uint32_t>(kData)) << "it is seen while it holds";
}

TEST_F(Program, AYieldGivesTheSliceAway) {
  Client other(world, 2);
  world.gpu.SetTimeslice(1, 1'000'000);
  client.Submit(client.Launch(kMillisecond));
  world.Run(100 * kMicrosecond);
  other.Submit(other.Launch(kMillisecond));
  Words words;
  Method(words, 0, 0x80, {3});
  client.Push(words);
  client.Submit(client.Launch(10 * kMillisecond));
  world.Run(3 * kMillisecond);
  EXPECT_EQ(1U, other.Accounting().kernels);
  EXPECT_EQ(1U, client.Accounting().kernels);
}

// A pushbuffer without end: it costs time, and Advance() costs what it was given.
TEST_F(Program, EndlessWorkEndsWithTheBudget) {
  const Words words(2000, 0);
  const std::uint64_t entry = Client::Entry(client.Store(words), 2000);
  for (int i = 0; i < 255; ++i) {
    client.PutEntry(entry);
  }
  client.Ring();
  EXPECT_FALSE(world.gpu.Advance(kSecond, 1000));
  EXPECT_LT(world.gpu.Now(), kMillisecond);
  EXPECT_GT(world.gpu.Now(), 40 * kMicrosecond);
  while (!world.gpu.Advance(kSecond, 1000)) {
  }
  EXPECT_EQ(kSecond, world.gpu.Now());
  EXPECT_NEAR(255.0 * (2000 * 25 + 100), static_cast<double>(client.Accounting().gpu_time_ns),
              100.0);
}

}  // namespace
}  // namespace cgpu::sim::engine::testing
