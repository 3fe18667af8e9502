#include "shim/managed_memory.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "boundary/quotas.h"
#include "shim/testing.h"

namespace cgpu::shim {
namespace {

using boundary::ManagedTracker;
using boundary::MmapKind;

constexpr std::uint64_t kStart = std::uint64_t{1} << 40;  // nothing of the test's lies there

// A thread that runs all the time: nobody can tell from outside that it is in no mmap.
class Runner {
 public:
  Runner() {
    while (tid_.load() == 0) {
      std::this_thread::yield();
    }
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() {
    over_.store(true);
    thread_.join();
  }
  [[nodiscard]] pid_t tid() const { return tid_.load(); }

 private:
  std::atomic<pid_t> tid_{0};
  std::atomic<bool> over_{false};
  std::thread thread_{[this] {
    tid_.store(gettid());
    while (!over_.load()) {
    }
  }};
};

ShimConfig OneGpu() {
  GpuGrant grant;
  grant.gpu.memory_bytes = grant.limit_bytes = kLimit;
  ShimConfig config;
  config.gpus = {grant};
  return config;
}

// Managed memory on one GPU; the tenant is the test itself.
class ManagedMemoryTest : public testing::Test {
 protected:
  struct Shim {
    explicit Shim(ManagedMemoryTest& test)
        : accounting(test.config_, test.abi_, {boundary::GpuIds{}}),
          processes(accounting, test.callers_, test.pool_),
          questions(test.abi_, accounting, test.executor_, test.uvm_files_),
          managed(test.proc_.get(), accounting, questions, processes, test.hurry_,
                  [&test] { test.MakeRoom(); }) {}
    Accounting accounting;
    ContainerProcesses processes;
    RangeQuestions questions;
    ManagedMemory managed;
  };

  ManagedMemoryTest() { shim_ = std::make_unique<Shim>(*this); }

  void MakeRoom() {
    ++looks_;
    if (room_to_make_) {
      const MutexLock lock(shim_->accounting.mutex);
      (void)shim_->accounting.ledger.SetLimit(0, kLimit);
    }
  }
  ManagedTracker::Claim ClaimOf(std::uint64_t bytes) {
    FakeCaller caller(fate_);
    caller.tid = gettid();
    caller.process = callers_.Processes()[0];
    ManagedTracker::Claim claim;
    claim.process = claim.program = caller.process->serial;
    claim.witness = shim_->managed.OpenWitness(caller);
    claim.range = {kStart, kStart + bytes};
    EXPECT_NE(claim.witness, 0U);
    return claim;
  }
  bool Begin(std::uint64_t bytes, MmapKind kind = MmapKind::kManaged, pid_t thread = gettid()) {
    return shim_->managed.Begin(kind, ClaimOf(bytes), thread);
  }
  std::uint64_t Used() {
    const MutexLock lock(shim_->accounting.mutex);
    return shim_->accounting.ledger.Used(0);
  }
  void SetLimit(std::uint64_t bytes) {
    const MutexLock lock(shim_->accounting.mutex);
    ASSERT_TRUE(shim_->accounting.ledger.SetLimit(0, bytes).ok());
  }
  bool CallsForLook() const {
    pollfd event{shim_->managed.attention(), POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }
  const ShimConfig config_ = OneGpu();
  const rm::Abi& abi_ = *rm::FindAbi({550, 163, 1});
  const UniqueFd proc_{open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  Fate fate_;
  FakeDriver calls_{fate_};
  FakeLookup callers_{fate_};
  NoCalls handler_;
  WorkerPool pool_{handler_, proc_.get()};
  Executor executor_{calls_, false};
  Hurry hurry_;
  UvmFiles uvm_files_{boundary::Boundary::kFirstSpace};
  int looks_ = 0;
  bool room_to_make_ = false;
  std::unique_ptr<Shim> shim_;
};

TEST_F(ManagedMemoryTest, AMappingIsChargedUntilItTurnsOutNotToBeThere) {
  EXPECT_FALSE(shim_->managed.Settle()) << "nothing is charged";
  const Runner runner;
  ASSERT_TRUE(Begin(4 * kMiB, MmapKind::kManaged, runner.tid()));
  const std::uint64_t charged = Used();
  EXPECT_GE(charged, 4 * kMiB);
  EXPECT_TRUE(shim_->managed.Settle());
  EXPECT_EQ(Used(), charged) << "the thread may still be in its mmap";
  shim_->managed.NoteThread(gettid());
  EXPECT_TRUE(shim_->managed.Settle());
  EXPECT_EQ(Used(), charged) << "another thread's call says nothing";
  shim_->managed.NoteThread(runner.tid());
  EXPECT_EQ(Used(), charged);
  EXPECT_TRUE(shim_->managed.Settle());
  EXPECT_EQ(Used(), 0U);
  EXPECT_FALSE(shim_->managed.Settle());
  EXPECT_EQ(looks_, 0);
}

TEST_F(ManagedMemoryTest, AMappingThatDoesNotFitIsRefusedAfterALook) {
  SetLimit(kMiB);
  EXPECT_FALSE(Begin(4 * kMiB));
  EXPECT_EQ(looks_, 1);
  EXPECT_EQ(Used(), 0U);
  EXPECT_EQ(shim_->accounting.Refused().at("managed memory over the limit"), 1U);
  const MutexLock lock(shim_->accounting.mutex);
  EXPECT_EQ(shim_->accounting.ledger.Denied(0), 1U);
}

TEST_F(ManagedMemoryTest, TheLookMayMakeRoom) {
  SetLimit(kMiB);
  room_to_make_ = true;
  EXPECT_TRUE(Begin(4 * kMiB));
  EXPECT_EQ(looks_, 1);
  EXPECT_NE(Used(), 0U);
  EXPECT_TRUE(shim_->accounting.Refused().empty());
}

TEST_F(ManagedMemoryTest, ASuspectIsWatchedAndNotCharged) {
  EXPECT_TRUE(Begin(2 * kLimit, MmapKind::kSuspect)) << "it needs no room";
  EXPECT_EQ(Used(), 0U);
  EXPECT_TRUE(shim_->managed.Watching());
  shim_->managed.NoteThread(gettid());
  (void)shim_->managed.Settle();
  EXPECT_FALSE(shim_->managed.Watching());
}

TEST_F(ManagedMemoryTest, CallsForALook) {
  EXPECT_FALSE(CallsForLook());
  shim_->managed.CallForLook();
  EXPECT_TRUE(CallsForLook());
  shim_->managed.ResetAttention();
  EXPECT_FALSE(CallsForLook());
}

TEST_F(ManagedMemoryTest, InAHurryAChargeStays) {
  ASSERT_TRUE(Begin(4 * kMiB));
  shim_->managed.NoteThread(gettid());
  hurry_.Set(true);
  (void)shim_->managed.Settle(true);
  EXPECT_NE(Used(), 0U);
  (void)shim_->managed.Settle();
  EXPECT_EQ(Used(), 0U) << "a call waits for it";
}

// `with`: the predecessor's witnesses come along; older versions had none.
TEST_F(ManagedMemoryTest, ASuccessorSettlesWhatWasBegun) {
  for (const bool with : {false, true}) {
    SCOPED_TRACE(with);
    ASSERT_TRUE(Begin(4 * kMiB));
    const std::uint64_t charged = Used();
    ServerState state;
    shim_->accounting.Save(state);
    shim_->managed.Save(state);
    EXPECT_TRUE(state.mapping);
    ASSERT_EQ(state.witnesses.size(), 1U);
    for (WitnessState& one : state.witnesses) {
      one.mem = fcntl(one.mem, F_DUPFD_CLOEXEC, 0);
      one.maps = fcntl(one.maps, F_DUPFD_CLOEXEC, 0);
    }
    if (!with) {
      close(state.witnesses[0].mem);
      close(state.witnesses[0].maps);
      state.witnesses.clear();
    }
    shim_ = std::make_unique<Shim>(*this);
    ASSERT_TRUE(shim_->accounting.Load(state, config_).ok());
    shim_->managed.TakeOver(state, {{1, callers_.Processes()[0]}});
    EXPECT_EQ(Used(), charged);
    shim_->managed.NoteThread(gettid());
    EXPECT_TRUE(shim_->managed.Settle());
    EXPECT_EQ(Used(), 0U);
  }
}

// The witness of a process that is gone stays unknown, and its number is not used again.
TEST_F(ManagedMemoryTest, ASuccessorUsesNoNumberAgain) {
  ASSERT_TRUE(Begin(4 * kMiB));
  ServerState state;
  shim_->accounting.Save(state);
  shim_->managed.Save(state);
  ASSERT_EQ(state.witnesses.size(), 1U);
  const auto used = state.witnesses[0].number;
  state.witnesses.clear();
  shim_ = std::make_unique<Shim>(*this);
  ASSERT_TRUE(shim_->accounting.Load(state, config_).ok());
  shim_->managed.TakeOver(state, {});
  EXPECT_GT(ClaimOf(kMiB).witness, used);
}

}  // namespace
}  // namespace cgpu::shim
