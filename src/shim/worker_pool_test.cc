#include "shim/worker_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "os/start_time.h"
#include "shim/pending.h"
#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// Keeps each call until Release().
class Keeper final : public CallHandler {
 public:
  void Handle(const SourcePtr& source, const os::Notification& notification) override {
    const MutexLock lock(mutex_);
    ++begun_;
    changed_.NotifyAll();
    while (keep_) {
      changed_.Wait(mutex_);
    }
    (void)source->listener.Answer(notification.id, 0, 0);
  }
  void Run(std::unique_ptr<ParkedCall> call) override {
    const MutexLock lock(mutex_);
    ran_.push_back(call->notification.tid);
    changed_.NotifyAll();
  }
  void AwaitBegun(int count) {
    const MutexLock lock(mutex_);
    while (begun_ < count) {
      changed_.Wait(mutex_);
    }
  }
  void AwaitRan(std::size_t count) {
    const MutexLock lock(mutex_);
    while (ran_.size() < count) {
      changed_.Wait(mutex_);
    }
  }
  int begun() {
    const MutexLock lock(mutex_);
    return begun_;
  }
  void Release() {
    const MutexLock lock(mutex_);
    keep_ = false;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int begun_ CGPU_GUARDED_BY(mutex_) = 0;
  bool keep_ CGPU_GUARDED_BY(mutex_) = true;
  std::vector<pid_t> ran_ CGPU_GUARDED_BY(mutex_);
};

// Threads of a pool run for as long as its process.
struct PoolWorld {
  FakeChannel* Serve() {
    auto own = std::make_unique<FakeChannel>(fate);
    auto* const channel = own.get();
    EXPECT_TRUE(pool.Serve(std::move(own)).ok());
    return channel;
  }
  std::uint64_t Push(FakeChannel& channel) {
    os::Notification call;
    call.id = ++last_id;
    channel.Push(call);
    return call.id;
  }
  Fate fate;
  Keeper keeper;
  UniqueFd proc{open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  WorkerPool pool{keeper, proc.get()};
  std::uint64_t last_id = 0;
};

PoolWorld& NewPoolWorld() {
  static auto& all = *new std::vector<std::unique_ptr<PoolWorld>>();
  return *all.emplace_back(std::make_unique<PoolWorld>());
}

TEST(WorkerPoolTest, AFullPoolTakesNoMoreAndGoesOnWhenThereIsRoom) {
  PoolWorld& world = NewPoolWorld();
  FakeChannel& one = *world.Serve();
  std::uint64_t last = 0;
  constexpr int kMost = WorkerPool::kMaxWorkers;
  for (int i = 0; i < kMost + 50; ++i) {
    last = world.Push(one);
  }
  world.keeper.AwaitBegun(kMost);
  EXPECT_TRUE(world.pool.NearlyFull());
  FakeChannel& other = *world.Serve();
  const std::uint64_t there = world.Push(other);
  world.keeper.AwaitBegun(kMost + 1);  // each source has a thread of its own
  EXPECT_LE(world.keeper.begun(), kMost + WorkerPool::kListening * 2);
  EXPECT_FALSE(world.pool.Quiesce(std::chrono::milliseconds(1)));
  world.pool.Resume();
  world.keeper.Release();
  EXPECT_TRUE(other.Await(there).answered);
  EXPECT_TRUE(one.Await(last).answered);
  while (world.pool.NearlyFull()) {  // until the threads are back
    std::this_thread::yield();
  }
}

TEST(WorkerPoolTest, AQuietPoolTakesNothingUntilItGoesOn) {
  PoolWorld& world = NewPoolWorld();
  world.keeper.Release();
  FakeChannel& channel = *world.Serve();
  EXPECT_TRUE(channel.Await(world.Push(channel)).answered);
  ASSERT_TRUE(world.pool.Quiesce(kTimeout));
  const std::uint64_t call = world.Push(channel);
  EXPECT_FALSE(channel.Answered(call));
  world.pool.Resume();
  EXPECT_TRUE(channel.Await(call).answered);
}

TEST(WorkerPoolTest, ACallThatHasWaitedRunsOnAnotherThread) {
  PoolWorld& world = NewPoolWorld();
  world.keeper.Release();
  (void)world.Serve();
  for (std::size_t i = 1; i <= 10; ++i) {
    auto call = std::make_unique<ParkedCall>();
    call->source = std::make_shared<Source>(std::make_unique<FakeChannel>(world.fate));
    ASSERT_TRUE(world.pool.RunElsewhere(call));
    world.keeper.AwaitRan(i);
  }
}

TEST(WorkerPoolTest, TheFirstSourceIsTheOneThatCameFirst) {
  PoolWorld& world = NewPoolWorld();
  world.keeper.Release();
  EXPECT_FALSE(world.pool.WhatIsServed().ever);
  EXPECT_EQ(world.pool.FirstProcess(), std::nullopt);
  const auto first = world.pool.Serve(std::make_unique<FakeChannel>(world.fate));
  const auto second = world.pool.Serve(std::make_unique<FakeChannel>(world.fate));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(world.pool.IsFirst(**first));
  EXPECT_FALSE(world.pool.IsFirst(**second));
  EXPECT_EQ(world.pool.FirstProcess(), 0) << "nobody has said yet";
  world.pool.SetProcess(**first, static_cast<unsigned>(getpid()), 0);
  EXPECT_EQ(world.pool.FirstProcess(), getpid());
  const auto roots = world.pool.Roots();
  ASSERT_EQ(roots.size(), 1U);
  EXPECT_EQ(roots[0].pid, getpid());
  EXPECT_EQ(roots[0].started, os::StartTime(world.proc.get(), getpid()));
  EXPECT_EQ(world.pool.WhatIsServed().first_process, static_cast<unsigned>(getpid()));
}

}  // namespace
}  // namespace cgpu::shim
