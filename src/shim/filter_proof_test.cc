#include "shim/filter_proof.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "shim/testing.h"

namespace cgpu::shim {
namespace {

// A container with two listeners, whose one process is a child of the test. The child's program is
// the test's, which an image could have.
struct ProofWorld : CallHandler {
  explicit ProofWorld(bool prove) {
    config.id = "0123456789ab";
    config.prove = prove;
    proof = std::make_unique<FilterProof>(config, proc.get(), accounting, pool, processes);
    for (FakeChannel** channel : {&first, &second}) {
      auto own = std::make_unique<FakeChannel>(fate);
      *channel = own.get();
      const auto source = pool.Serve(std::move(own));
      EXPECT_TRUE(source.ok());
      sources.push_back(*source);
    }
  }
  void Handle(const SourcePtr& source, const os::Notification& call) override {
    proof->Take(source, call);
  }
  void Run(std::unique_ptr<ParkedCall> /*call*/) override {}

  // Says that the first listener is the child's.
  void NameChild() { pool.SetProcess(*sources[0], static_cast<unsigned>(child.pid()), 0); }
  // Ends the child by SIGTERM. Returns the signal that has ended it, which may be an earlier one.
  int EndChild() const {
    (void)kill(child.pid(), SIGTERM);
    return child.AwaitSignal();
  }
  bool Proves(FakeChannel* channel) const {
    os::Notification call;
    call.id = 1;
    channel->Push(call);
    return channel->Await(call.id).answered;
  }
  bool Unproved() const {
    ServerState state;
    proof->Save(state);
    return state.unproved;
  }

  const rm::Abi& abi = *rm::FindAbi({550, 163, 1});
  const UniqueFd proc{open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  Fate fate;
  FakeLookup callers{fate};
  const Child child{callers};
  WorkerPool pool{*this, proc.get()};
  ShimConfig config;
  Accounting accounting{config, abi, {}};
  ContainerProcesses processes{accounting, callers, pool};
  std::unique_ptr<FilterProof> proof;
  FakeChannel* first = nullptr;
  FakeChannel* second = nullptr;
  std::vector<SourcePtr> sources;
};

// Threads of a pool run for as long as its process.
ProofWorld& NewProofWorld(bool prove) {
  static auto& all = *new std::vector<std::unique_ptr<ProofWorld>>();
  return *all.emplace_back(std::make_unique<ProofWorld>(prove));
}

TEST(FilterProofTest, WhereNoProofIsDueNobodyIsEnded) {
  ProofWorld& world = NewProofWorld(false);
  world.NameChild();
  EXPECT_FALSE(world.proof->Look());
  EXPECT_EQ(world.EndChild(), SIGTERM);
}

TEST(FilterProofTest, AProgramOfTheImageWithoutProofIsTheContainersEnd) {
  ProofWorld& world = NewProofWorld(true);
  EXPECT_TRUE(world.proof->Look()) << "nobody has said yet whose listener it is";
  EXPECT_TRUE(world.accounting.Refused().empty());
  world.NameChild();
  EXPECT_FALSE(world.proof->Look());
  EXPECT_EQ(world.EndChild(), SIGKILL);
  EXPECT_EQ(world.accounting.Refused().size(), 1U);
  EXPECT_FALSE(world.Unproved()) << "the end comes once";
}

TEST(FilterProofTest, OnlyTheFirstListenersProofCounts) {
  ProofWorld& world = NewProofWorld(true);
  EXPECT_TRUE(world.Proves(world.second));
  EXPECT_TRUE(world.Unproved());
  EXPECT_TRUE(world.proof->Look());
  EXPECT_TRUE(world.Proves(world.first));
  EXPECT_FALSE(world.Unproved());
  world.NameChild();
  EXPECT_FALSE(world.proof->Look());
  EXPECT_EQ(world.EndChild(), SIGTERM);
  EXPECT_TRUE(world.accounting.Refused().empty());
}

TEST(FilterProofTest, ASuccessorGoesOnWaiting) {
  ProofWorld& world = NewProofWorld(false);
  ServerState state;
  state.unproved = true;
  world.proof->Load(state);
  EXPECT_TRUE(world.Unproved());
  EXPECT_TRUE(world.proof->Look());
  EXPECT_EQ(world.EndChild(), SIGTERM);
}

}  // namespace
}  // namespace cgpu::shim
