#include "cgpud/chronicle.h"

#include <gmock/gmock.h>

namespace cgpu {
namespace {

constexpr char kChronicledId[] = "0123456789ab";
constexpr unsigned kUser = 1000;

Chronicle::Now At(int second) {
  return {AuditLog::Time(std::chrono::seconds(second)), static_cast<std::uint64_t>(second) * 1'000};
}

Refusal Calls(const std::string& what, std::uint64_t count) {
  return {kChronicledId, "web", what, count, "train", kUser};
}

Denial Memory(std::uint64_t count) {
  Denial denial{{kChronicledId, "web", "GPU-1", count, "train", kUser}};
  denial.gpu = 3;
  denial.limit_bytes = 4096;
  return denial;
}

class ChronicleTest : public testing::Test {
 protected:
  std::uint64_t Sum(const std::string& kind, const std::string& key) const {
    std::uint64_t sum = 0;
    for (const Event& event : kept_) {
      sum += event.kind == kind ? NumberOf(event, key) : 0;
    }
    return sum;
  }
  std::size_t CountOf(const std::string& kind) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(kept_, [&](const Event& event) { return event.kind == kind; }));
  }

  std::vector<Event> kept_;
  Chronicle chronicle_{[this](const std::vector<Event>& events) {
    kept_.insert(kept_.end(), events.begin(), events.end());
  }};
};

TEST_F(ChronicleTest, RefusedMemoryIsMerged) {
  chronicle_.Take(Memory(1));
  chronicle_.Flush(At(100));
  chronicle_.Take(Memory(20));
  chronicle_.Take(Memory(43));
  EXPECT_EQ(chronicle_.next(), At(110).time);
  chronicle_.Flush(At(109));
  ASSERT_EQ(kept_.size(), 1U);
  chronicle_.Flush(At(110));
  ASSERT_EQ(kept_.size(), 2U);
  EXPECT_EQ(kept_[1], (Event{110'000,
                             events::kMemoryRefused,
                             {{"container", kChronicledId},
                              {"name", "train"},
                              {"engine_id", "web"},
                              {"uuid", "GPU-1"},
                              {"gpu", "3"},
                              {"limit_bytes", std::uint64_t{4096}},
                              {"count", std::uint64_t{42}},
                              {"total", std::uint64_t{43}},
                              {"over_ms", std::uint64_t{10'000}}}}));
  EXPECT_EQ(chronicle_.next(), std::nullopt);
}

TEST_F(ChronicleTest, RefusedCallsOfAllNamesAreOneEvent) {
  for (int i = 0; i < 500; ++i) {
    chronicle_.Take(Calls("name" + std::to_string(i), i == 7 ? 90 : 2));
  }
  chronicle_.Flush(At(100));
  ASSERT_EQ(kept_.size(), 1U);
  EXPECT_EQ(NumberOf(kept_[0], "count"), 499U * 2 + 90);
  EXPECT_EQ(TextOf(kept_[0], "most"), "name7");
  // The last count is told when the container ends.
  chronicle_.Take(Calls("name1", 3));
  chronicle_.End(kChronicledId, At(101));
  ASSERT_EQ(kept_.size(), 2U);
  EXPECT_EQ(NumberOf(kept_[1], "count"), 1U);
  EXPECT_EQ(Sum(events::kCallsRefused, "count"), NumberOf(kept_[1], "total"));
}

TEST_F(ChronicleTest, AFloodOfRefusalsIsFewEventsAndTheirSumIsRight) {
  for (int second = 1; second <= 3'600; ++second) {
    chronicle_.Take(Memory(static_cast<std::uint64_t>(second) * 10'000));
    chronicle_.Take(Calls("A", static_cast<std::uint64_t>(second) * 10'000));
    chronicle_.Flush(At(second));
  }
  EXPECT_LE(kept_.size(), 20U);
  chronicle_.End(kChronicledId, At(3'601));
  EXPECT_EQ(Sum(events::kMemoryRefused, "count"), 36'000'000U);
  EXPECT_EQ(Sum(events::kCallsRefused, "count"), 36'000'000U);
}

TEST_F(ChronicleTest, WhatIsLeftOutIsCounted) {
  constexpr std::uint64_t kMany = 5'000;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    chronicle_.Tell({0, events::kStarted, {}}, kUser, At(100));
    chronicle_.Flush(At(100));
  }
  EXPECT_EQ(kept_.size(), Chronicle::kAtOnce);
  EXPECT_EQ(chronicle_.next(), At(110).time);
  // Others are not held up.
  chronicle_.Tell({0, events::kGpuLost, {}}, 0, At(100));
  EXPECT_EQ(CountOf(events::kGpuLost), 1U);
  chronicle_.Flush(At(109));
  EXPECT_EQ(CountOf(events::kLeftOut), 0U);
  chronicle_.Flush(At(110));
  EXPECT_EQ(Sum(events::kLeftOut, "count"), kMany - Chronicle::kAtOnce);
  EXPECT_EQ(chronicle_.next(), std::nullopt);
  // It goes on for an hour, with one event in 10 s.
  for (int second = 111; second < 3'711; ++second) {
    for (int i = 0; i < 10; ++i) {
      chronicle_.Tell({0, events::kStarted, {}}, kUser, At(second));
      chronicle_.Flush(At(second));
    }
  }
  EXPECT_LE(kept_.size(), Chronicle::kAtOnce + 2 + 361);
  chronicle_.Flush(At(9'999));
  EXPECT_EQ(CountOf(events::kStarted) + Sum(events::kLeftOut, "count"), kMany + 36'000);
}

TEST_F(ChronicleTest, AnotherDaemonTellsNothingTwice) {
  chronicle_.Take(Memory(5));
  chronicle_.Take(Calls("A", 3));
  chronicle_.Flush(At(100));
  const std::vector<Event> past = std::exchange(kept_, {});
  Chronicle next([this](const std::vector<Event>& events) {
    kept_.insert(kept_.end(), events.begin(), events.end());
  });
  next.Remember(past);
  next.Take(Memory(5));
  next.Take(Calls("A", 3));
  next.Flush(At(200));
  EXPECT_TRUE(kept_.empty());
  next.Take(Memory(6));
  next.Flush(At(201));
  ASSERT_EQ(kept_.size(), 1U);
  EXPECT_EQ(NumberOf(kept_[0], "count"), 1U);
  EXPECT_EQ(NumberOf(kept_[0], "total"), 6U);
}

}  // namespace
}  // namespace cgpu
