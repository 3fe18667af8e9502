#include "shim/counters.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

namespace cgpu::shim {
namespace {

using boundary::CallKind;
using boundary::Reason;
using std::chrono::nanoseconds;

TEST(Counters, EveryCallHasOneKindAndOneDuration) {
  Counters counters;
  counters.CountAnswered(CallKind::kAlloc, nanoseconds(0));
  counters.CountAnswered(CallKind::kAlloc, nanoseconds(10'000));
  counters.CountAnswered(CallKind::kUvm, nanoseconds(10'001));
  counters.CountAnswered(CallKind::kOther, std::chrono::seconds(1));
  counters.CountAnswered(CallKind::kOther, std::chrono::hours(1));
  const CallCounters counts = counters.Read();
  EXPECT_EQ(counts.calls, (std::array<std::uint64_t, 8>{2, 0, 0, 0, 0, 1, 0, 2}));
  EXPECT_EQ(counts.durations, (std::array<std::uint64_t, 8>{2, 1, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(counts.duration_ns, 3'601'000'020'001U);
  EXPECT_EQ(counts.upgrades, 0U);
}

TEST(Counters, TheTimeIsThatSinceTheReceipt) {
  Counters counters;
  counters.CountAnswered(CallKind::kDup, Counters::Clock::now() - std::chrono::seconds(2));
  EXPECT_EQ(counters.Read().durations.back(), 1U);
  EXPECT_GE(counters.Read().duration_ns, 2'000'000'000U);
}

TEST(Counters, NamesAreInTheOrderOfTheNumbers) {
  Counters counters;
  counters.CountRefused(Reason::kMemoryLimit);
  counters.CountRefused(Reason::kNotKnown);
  EXPECT_EQ(counters.Read().refused, (std::array<std::uint64_t, 6>{1, 0, 0, 0, 0, 1}));
  EXPECT_STREQ(kRefusalReasons[static_cast<std::size_t>(Reason::kQuota)], "quota");
  EXPECT_STREQ(kRefusalReasons[static_cast<std::size_t>(Reason::kGpuNotGranted)],
               "gpu_not_granted");
  EXPECT_STREQ(kRefusalReasons[static_cast<std::size_t>(Reason::kInvalid)], "invalid");
  EXPECT_STREQ(kRefusalReasons[static_cast<std::size_t>(Reason::kNotAllowed)], "not_allowed");
  EXPECT_STREQ(kCallKinds[static_cast<std::size_t>(CallKind::kFree)], "free");
  EXPECT_STREQ(kCallKinds[static_cast<std::size_t>(CallKind::kControl)], "control");
  EXPECT_STREQ(kCallKinds[static_cast<std::size_t>(CallKind::kDup)], "dup");
  EXPECT_STREQ(kCallKinds[static_cast<std::size_t>(CallKind::kMap)], "map");
  EXPECT_STREQ(kCallKinds[static_cast<std::size_t>(CallKind::kUvm)], "uvm");
  EXPECT_STREQ(kCallKinds[static_cast<std::size_t>(CallKind::kMmap)], "mmap");
}

TEST(Counters, ASuccessorGoesOn) {
  Counters first;
  first.CountAnswered(CallKind::kMap, nanoseconds(5));
  first.CountRefused(Reason::kInvalid);
  CallCounters counts = first.Read();
  counts.upgrades = 3;
  Counters second;
  second.Resume(counts);
  EXPECT_EQ(second.Read(), counts);
  second.CountAnswered(CallKind::kMap, nanoseconds(5));
  EXPECT_EQ(second.Read().duration_ns, 10U);
}

TEST(Counters, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEach = 20'000;
  Counters counters;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t j = 0; j < kEach; ++j) {
        counters.CountAnswered(CallKind::kControl, nanoseconds(3));
        counters.CountRefused(Reason::kQuota);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const CallCounters counts = counters.Read();
  EXPECT_EQ(std::accumulate(counts.calls.begin(), counts.calls.end(), std::uint64_t{0}),
            kThreads * kEach);
  EXPECT_EQ(counts.durations[0], kThreads * kEach);
  EXPECT_EQ(counts.duration_ns, 3 * kThreads * kEach);
  EXPECT_EQ(counts.refused[1], kThreads * kEach);
}

}  // namespace
}  // namespace cgpu::shim
