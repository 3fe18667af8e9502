#include "base/shared_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace cgpu {
namespace {

constexpr std::chrono::milliseconds kSoon{1};
constexpr std::chrono::minutes kEver{5};

TEST(SharedLock, ManyHoldItOrOne) {
  SharedLock lock;
  std::shared_lock one(lock);
  std::shared_lock other(lock);
  EXPECT_FALSE(lock.try_lock_for(kSoon));
  one.unlock();
  EXPECT_FALSE(lock.try_lock_for(kSoon));
  other.unlock();
  EXPECT_TRUE(lock.try_lock_for(kSoon));
  EXPECT_FALSE(lock.try_lock_for(kSoon));
  lock.unlock();
  const std::shared_lock again(lock);
}

// Two threads that always overlap leave no moment in which nobody holds the lock.
TEST(SharedLock, ThoseWhoComeAndGoKeepNobodyOut) {
  SharedLock lock;
  std::atomic<bool> over{false};
  std::atomic<int> inside{0};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        const std::shared_lock shared(lock);
        ++inside;
        ++rounds;
        for (int spins = 0; spins < 1000 && inside < 2 && !over; ++spins) {
          std::this_thread::yield();
        }
        --inside;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    for (const int before = rounds; rounds == before;) {  // they hold it again and again
      std::this_thread::yield();
    }
    const std::unique_lock alone(lock, kEver);
    EXPECT_TRUE(alone.owns_lock());
    EXPECT_EQ(inside, 0);
  }
  over = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace cgpu
