#include "shim/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace cgpu::shim {
namespace {

TEST(ByteBudget, NeverGivesMoreThanItHas) {
  constexpr std::size_t kBytes = 100;
  ByteBudget budget(kBytes);
  std::atomic<std::size_t> held{0};
  std::atomic<std::size_t> most{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i <= 8; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t round = 0; round < 1000; ++round) {
        const std::size_t bytes = 1 + (i * 37 + round * 13) % kBytes;
        const ByteBudget::Share share = budget.Take(bytes);
        const std::size_t now = held += bytes;
        for (std::size_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        held -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(most, kBytes);
  EXPECT_GT(most, 0U);
  const ByteBudget::Share all = budget.Take(kBytes);  // hangs unless all of it is back
}

TEST(ByteBudget, AShareThatIsReplacedIsGivenBack) {
  ByteBudget budget(10);
  ByteBudget::Share share = budget.Take(10);
  ByteBudget::Share moved = std::move(share);
  moved = {};
  share = budget.Take(10);  // hangs unless it is back
}

}  // namespace
}  // namespace cgpu::shim
