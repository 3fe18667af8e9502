#include "governor/use_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace cgpu::governor {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWindow = 100 * kMs;

UseCounter::Sample Window(std::uint64_t end_ms, double busy, std::uint32_t pid = 0) {
  return {end_ms * kMs, kWindow, busy, pid};
}

TEST(UseCounter, GivesAFullWindowToThoseThatWereThere) {
  UseCounter counter;
  counter.Add(7, 100 * kMs, true);
  counter.Add(7, 130 * kMs, false);
  counter.Add(8, 130 * kMs, true);
  counter.AddSample(Window(200, 1));
  const auto use = counter.Take();
  EXPECT_EQ(use.span_ns, kWindow);
  EXPECT_EQ(use.busy_ns, kWindow);
  EXPECT_EQ(use.used_ns.at(7), 30 * kMs);
  EXPECT_EQ(use.used_ns.at(8), 70 * kMs);
  EXPECT_EQ(counter.Take().span_ns, 0U);
}

TEST(UseCounter, GivesOneProcessAlonesWhatTheSampleSays) {
  UseCounter counter;
  counter.Add(7, 50 * kMs, true);
  counter.AddSample(Window(200, 0.25));
  counter.AddSample(Window(300, 0));
  counter.AddSample(Window(500, 0.5));  // nothing ran from 300 to 400: there is no sample
  const auto use = counter.Take();
  EXPECT_EQ(use.span_ns, 400 * kMs);
  EXPECT_EQ(use.used_ns.at(7), 75 * kMs);
  EXPECT_EQ(use.busy_ns, 75 * kMs);
}

// The clock took it off; without the end of its stay the gap would be its own.
TEST(UseCounter, GivesNobodyMoreThanTheTimeItWasThere) {
  UseCounter counter;
  counter.Add(7, 0, true);
  counter.Add(7, 10 * kMs, false);
  counter.Add(8, 60 * kMs, true);
  counter.Add(8, 90 * kMs, false);
  counter.AddSample(Window(100, 0.4));
  const auto use = counter.Take();
  EXPECT_EQ(use.used_ns.at(7), 10 * kMs);
  EXPECT_EQ(use.used_ns.at(8), 30 * kMs);
}

TEST(UseCounter, TakesTheSamplesProcessWhereNoSwitchTells) {
  UseCounter counter;
  counter.AddSample(Window(50, 0.1));
  EXPECT_EQ(counter.Take().busy_ns, 0U) << "nobody is known yet";
  counter.AddSample(Window(150, 0.4, 9));
  counter.AddSample(Window(200, 0.1));
  counter.Add(7, 250 * kMs, false);  // it was there from before the first switch
  counter.AddSample(Window(300, 0.2, 9));
  counter.Lost();
  counter.AddSample(Window(400, 0.3, 8));
  const auto use = counter.Take();
  EXPECT_EQ(use.used_ns.at(9), 60 * kMs);
  EXPECT_EQ(use.used_ns.size(), 3U);
  EXPECT_EQ(use.used_ns.at(7), 20 * kMs);
  EXPECT_EQ(use.used_ns.at(8), 30 * kMs);
}

TEST(UseCounter, LosesNoTimeWithTheSwitches) {
  UseCounter counter;
  counter.Add(7, 100 * kMs, true);
  counter.Lost();
  counter.Add(8, 240 * kMs, true);
  counter.Add(9, 280 * kMs, true);
  counter.AddSample(Window(300, 0.9));
  const auto use = counter.Take();
  EXPECT_EQ(use.busy_ns, 90 * kMs);
  EXPECT_EQ(use.used_ns.at(8), 60 * kMs);
  EXPECT_EQ(use.used_ns.at(9), 30 * kMs);
}

TEST(UseCounter, IgnoresWhatIsOldOrEmpty) {
  UseCounter counter;
  counter.Add(7, 1, true);
  counter.AddSample(Window(200, 1));
  counter.AddSample(Window(200, 1));
  counter.AddSample(Window(150, 1));
  counter.AddSample({300 * kMs, 0, 1, 0});
  EXPECT_EQ(counter.Take().busy_ns, kWindow);
}

// A process that stays on the engine with nothing to do, beside one that works whenever it is
// there: the counter learns which is which.
TEST(UseCounter, LearnsWhoWorks) {
  UseCounter counter;
  std::mt19937 random(1);
  std::uint64_t now = 0;
  double used[2] = {};
  for (int window = 0; window < 600; ++window) {
    // 7 works for all its stay, 8 for a tenth of its own.
    const std::uint64_t part = 20 * kMs + random() % (60 * kMs);
    counter.Add(7, now, true);
    counter.Add(7, now + part, false);
    counter.Add(8, now + part, true);
    now += kWindow;
    counter.Add(8, now, false);
    const double busy[2] = {static_cast<double>(part), 0.1 * static_cast<double>(kWindow - part)};
    counter.AddSample({now, kWindow, (busy[0] + busy[1]) / kWindow, 0});
    if (window == 300) {
      (void)counter.Take();
    } else if (window > 300) {
      used[0] += busy[0];
      used[1] += busy[1];
    }
  }
  const auto use = counter.Take();
  EXPECT_NEAR(static_cast<double>(use.used_ns.at(7)) / used[0], 1, 0.02);
  EXPECT_NEAR(static_cast<double>(use.busy_ns) / (used[0] + used[1]), 1, 1e-6);
}

// Whatever the lists say: no process has more than it was there for, and all together have what the
// samples say, as far as somebody was there for so long.
TEST(UseCounter, AlwaysAddsUp) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    UseCounter counter;
    std::map<std::uint32_t, std::uint64_t> there;
    std::uint64_t now = 0;
    double most = 0;
    double least = 0;
    for (int window = 0; window < 20; ++window) {
      std::uint64_t stays = 0;
      const std::uint64_t end = now + kWindow;
      while (now < end) {
        const std::uint64_t off = std::min<std::uint64_t>(random() % 3 * kMs, end - now);
        const std::uint64_t on = std::min<std::uint64_t>(random() % 40 * kMs, end - now - off);
        const auto pid = static_cast<std::uint32_t>(1 + random() % 5);
        counter.Add(pid, now + off, true);
        counter.Add(pid, now + off + on, false);
        there[pid] += on;
        stays += on;
        now += off + on;
      }
      const double busy = static_cast<double>(random() % 1001) / 1000;
      most += busy * kWindow;
      least += std::min(busy * kWindow, static_cast<double>(stays));
      counter.AddSample({end, kWindow, busy, 0});
    }
    const auto use = counter.Take();
    for (const auto& [pid, ns] : use.used_ns) {
      EXPECT_LE(ns, there[pid] + 20);
    }
    EXPECT_LE(static_cast<double>(use.busy_ns), most + 100);
    EXPECT_GE(static_cast<double>(use.busy_ns), least - 1000);
  }
}

}  // namespace
}  // namespace cgpu::governor
