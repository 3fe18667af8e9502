#include "kube/state.h"

#include <gtest/gtest.h>

#include "kube/testing.h"

namespace cgpu::kube {
namespace {

NodeInfo MakeNode(const std::string& name, unsigned gpus, Mode mode = Mode::kCoreMem,
                  Placement placement = Placement::kBinpack) {
  NodeInfo node;
  node.name = name;
  node.mode = mode;
  node.placement = placement;
  for (unsigned i = 0; i < gpus; ++i) {
    node.gpus.push_back({"GPU-" + name + std::to_string(i), 16160, true});
  }
  return node;
}

PodAsk MakePod(const std::string& uid, std::uint32_t memory, std::uint32_t compute = 0) {
  PodAsk pod;
  pod.uid = pod.name = uid;
  ContainerAsk one;
  one.name = "main";
  one.memory = memory;
  one.compute = compute;
  pod.containers = {one};
  return pod;
}

class ClusterStateTest : public ::testing::Test {
 protected:
  // Returns the pod as the API server shows it once it is bound.
  PodAsk Bound(PodAsk pod, const Decision& decision) {
    pod.node = decision.node;
    pod.decision = EncodeDecision(decision, key_);
    return pod;
  }
  std::uint32_t MemoryOf(const std::string& node, const std::string& gpu) {
    return state_.UseOf(node)["GPU-" + node + gpu].memory;
  }

  Key key_ = MakeKey();
  ClusterState state_;
};

TEST_F(ClusterStateTest, CountsAnAssumptionOnce) {
  state_.SetNode(MakeNode("a", 1), key_);
  const PodAsk pod = MakePod("p", 8);
  const auto decision = state_.Assume(pod, "a", kNow);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->gpus, std::vector<std::string>{"GPU-a0"});
  EXPECT_EQ(state_.WhyNot(MakePod("q", 8), "a"), "GPU 0 has 7 of 8 GiB free");
  // The scheduler asks again; the API server confirms, more than once.
  EXPECT_EQ(state_.Assume(pod, "a", kNow)->gpus, decision->gpus);
  state_.SetPod(Bound(pod, *decision), key_);
  state_.SetPod(Bound(pod, *decision), key_);
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  EXPECT_TRUE(state_.Expire(Clock::time_point::max()).empty());
  state_.RemovePod("p");
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
}

TEST_F(ClusterStateTest, DropsAnAssumptionThatIsNotConfirmed) {
  state_.SetNode(MakeNode("a", 1), key_);
  ASSERT_TRUE(state_.Assume(MakePod("p", 15), "a", kNow).ok());
  EXPECT_TRUE(state_.Expire(kNow + ClusterState::kAssumed - std::chrono::seconds(1)).empty());
  EXPECT_EQ(state_.Assume(MakePod("q", 1), "a", kNow).error().code, Code::kExhausted);
  EXPECT_EQ(state_.Expire(kNow + ClusterState::kAssumed), std::vector<std::string>{"p"});
  EXPECT_TRUE(state_.Assume(MakePod("q", 15), "a", kNow).ok());
  state_.Forget("q");
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
}

TEST_F(ClusterStateTest, IsTheSameAfterARestart) {
  state_.SetNode(MakeNode("a", 2), key_);
  const auto first = state_.Assume(MakePod("p", 8), "a", kNow);
  const auto second = state_.Assume(MakePod("q", 8, 30), "a", kNow);
  ClusterState again;
  again.SetPod(Bound(MakePod("q", 8, 30), *second), key_);  // before its node
  again.SetNode(MakeNode("a", 2), key_);
  again.SetPod(Bound(MakePod("p", 8), *first), key_);
  for (const char* gpu : {"GPU-a0", "GPU-a1"}) {
    EXPECT_EQ(again.UseOf("a")[gpu].memory, state_.UseOf("a")[gpu].memory);
    EXPECT_EQ(again.UseOf("a")[gpu].compute, state_.UseOf("a")[gpu].compute);
  }
  again.RemoveNode("a");
  EXPECT_EQ(again.WhyNot(MakePod("r", 1), "a"), "it has no GPUs of cgpu");
  again.SetNode(MakeNode("a", 2), key_);
  EXPECT_EQ(again.UseOf("a")["GPU-a0"].memory, 8U);
}

TEST_F(ClusterStateTest, BelievesNoForgedDecision) {
  state_.SetNode(MakeNode("a", 1), key_);
  state_.SetNode(MakeNode("b", 1), key_);
  const Decision mine = *state_.Assume(MakePod("p", 8), "a", kNow);
  state_.SetPod(Bound(MakePod("p", 8), mine), key_);
  // Signed by another; signed for another pod; for another node.
  PodAsk forged = MakePod("f", 8);
  forged.node = "a";
  forged.decision = EncodeDecision(mine, MakeKey());
  state_.SetPod(forged, key_);
  forged.decision = EncodeDecision(mine, key_);
  state_.SetPod(forged, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  PodAsk moved = Bound(MakePod("p", 8), mine);
  moved.node = "b";
  state_.SetPod(moved, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  EXPECT_EQ(MemoryOf("b", "0"), 0U);
  // Without its annotation the pod holds what it holds.
  PodAsk bare = MakePod("p", 8);
  bare.node = "a";
  state_.SetPod(bare, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
}

TEST_F(ClusterStateTest, APodWithoutAnAnswerGoesWhereItWasDecided) {
  state_.SetNode(MakeNode("a", 1), key_);
  state_.SetNode(MakeNode("b", 1), key_);
  ASSERT_TRUE(state_.Assume(MakePod("p", 15), "a", kNow).ok());
  EXPECT_EQ(state_.WhyNot(MakePod("p", 15), "a"), "");
  EXPECT_EQ(state_.WhyNot(MakePod("p", 15), "b"), "the pod was given GPUs of a a moment ago");
  EXPECT_EQ(state_.Assume(MakePod("p", 15), "b", kNow).error().code, Code::kConflict);
}

TEST_F(ClusterStateTest, CountsWhatANodeHasLetIn) {
  NodeInfo node = MakeNode("a", 1);
  state_.SetNode(node, key_);
  const PodAsk pod = MakePod("p", 8);
  const Decision decision = *state_.Assume(pod, "a", kNow);
  node.admitted = {EncodeDecision(decision, key_), EncodeDecision(decision, MakeKey()), ""};
  state_.SetNode(node, key_);
  state_.SetPod(Bound(pod, decision), key_);
  // Deleted by force, while it runs on.
  state_.RemovePod("p");
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  // After a restart, where somebody has taken the annotation off the pod.
  ClusterState again;
  PodAsk bare = pod;
  bare.node = "a";
  again.SetPod(bare, key_);
  again.SetNode(node, key_);
  EXPECT_EQ(again.UseOf("a")["GPU-a0"].memory, 8U);
  // The pod goes first, or the node's word.
  node.admitted = {};
  state_.SetNode(node, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
  again.SetNode(node, key_);
  EXPECT_EQ(again.UseOf("a")["GPU-a0"].memory, 0U);
  // Another node's word for it counts for nothing; a node that is gone says nothing.
  NodeInfo other = MakeNode("b", 1);
  other.admitted = {EncodeDecision(decision, key_)};
  state_.SetNode(other, key_);
  EXPECT_EQ(MemoryOf("a", "0") + MemoryOf("b", "0"), 0U);
  node.admitted = other.admitted;
  state_.SetNode(node, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  state_.RemoveNode("a");
  state_.SetNode(MakeNode("a", 1), key_);
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
}

TEST_F(ClusterStateTest, APodThatStaysOnItsNodeHoldsItsPart) {
  NodeInfo node = MakeNode("a", 1);
  state_.SetNode(node, key_);
  const PodAsk pod = MakePod("p", 8);
  const Decision decision = *state_.Assume(pod, "a", kNow);
  // It is first seen bound without its annotation: decided here all the same.
  PodAsk bare = pod;
  bare.node = "a";
  state_.SetPod(bare, key_);
  EXPECT_TRUE(state_.Expire(Clock::time_point::max()).empty());
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  node.admitted = {EncodeDecision(decision, key_)};
  state_.SetNode(node, key_);
  node.admitted = {};
  state_.SetNode(node, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 8U);
  state_.RemovePod("p");
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
}

TEST_F(ClusterStateTest, TellsWhoHasRoom) {
  state_.SetNode(MakeNode("a", 1), key_);
  const PodAsk first = MakePod("first", 15);
  ASSERT_TRUE(state_.Assume(first, "a", kNow).ok());
  const PodAsk x = MakePod("x", 8);
  const PodAsk y = MakePod("y", 8);
  const PodAsk z = MakePod("z", 7);
  const std::vector<const PodAsk*> waiting{&x, &y, &z};
  EXPECT_TRUE(state_.TakeThoseWithRoom(waiting).empty());
  state_.Forget("first");
  EXPECT_EQ(state_.TakeThoseWithRoom(waiting), (std::vector<const PodAsk*>{&x, &z}));
  EXPECT_TRUE(state_.TakeThoseWithRoom(waiting).empty());  // nothing more has become free
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
}

TEST_F(ClusterStateTest, EndedPodsHoldNothing) {
  state_.SetNode(MakeNode("a", 1), key_);
  PodAsk pod = MakePod("p", 8);
  pod = Bound(pod, *state_.Assume(pod, "a", kNow));
  state_.SetPod(pod, key_);
  pod.ended = true;
  state_.SetPod(pod, key_);
  EXPECT_EQ(MemoryOf("a", "0"), 0U);
}

TEST_F(ClusterStateTest, KeepsToTheModeOfTheNode) {
  state_.SetNode(MakeNode("none", 1, Mode::kNone), key_);
  state_.SetNode(MakeNode("cgpu", 1, Mode::kCgpu), key_);
  state_.SetNode(MakeNode("core", 1, Mode::kCoreMem), key_);
  state_.SetNode(MakeNode("share", 1, Mode::kShare), key_);
  EXPECT_EQ(state_.WhyNot(MakePod("p", 1), "none"),
            "its GPUs are not shared: it lacks the label ack.node.gpu.schedule=cgpu or =core_mem");
  EXPECT_EQ(state_.WhyNot(MakePod("p", 1), "cgpu"), "");
  EXPECT_EQ(state_.WhyNot(MakePod("p", 1, 5), "cgpu"),
            "it promises no compute time: that takes the label ack.node.gpu.schedule=core_mem");
  EXPECT_EQ(state_.WhyNot(MakePod("p", 1, 5), "core"), "");
  EXPECT_EQ(state_.WhyNot(MakePod("p", 1), "unknown"), "it has no GPUs of cgpu");
  EXPECT_TRUE(state_.Assume(MakePod("p", 1), "cgpu", kNow)->isolated);
  EXPECT_FALSE(state_.WhyNot(MakePod("q", 1, 5), "share").empty());
  EXPECT_FALSE(state_.Assume(MakePod("q", 1), "share", kNow)->isolated);
}

TEST_F(ClusterStateTest, GivesWholeGpus) {
  NodeInfo node = MakeNode("a", 3, Mode::kShare);
  node.gpus[1].exclusive = true;
  state_.SetNode(node, key_);
  const auto whole = [](const std::string& uid) {
    PodAsk pod = MakePod(uid, 0);
    pod.containers[0].whole = 1;
    return pod;
  };
  // The exclusive one first, then one that nobody shares.
  const auto first = state_.Assume(whole("p"), "a", kNow);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->gpus, std::vector<std::string>{"GPU-a1"});
  EXPECT_EQ(first->containers[0].memory, 15U);
  EXPECT_TRUE(first->isolated);
  EXPECT_EQ(MemoryOf("a", "1"), 15U);
  ASSERT_TRUE(state_.Assume(MakePod("q", 1), "a", kNow).ok());
  const auto second = state_.Assume(whole("r"), "a", kNow);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(state_.Assume(whole("s"), "a", kNow).error().code, Code::kExhausted);
  // Nobody else gets a part of them.
  EXPECT_TRUE(state_.WhyNot(MakePod("t", 14), "a").empty());
  EXPECT_FALSE(state_.WhyNot(MakePod("t", 15), "a").empty());
}

TEST_F(ClusterStateTest, PlacesByTheLabelOfTheNode) {
  for (const auto placement : {Placement::kBinpack, Placement::kSpread}) {
    ClusterState state;
    state.SetNode(MakeNode("a", 2, Mode::kCgpu, placement), key_);
    PodAsk first = MakePod("p", 2);
    PodAsk second = MakePod("q", 2);
    first.owner = second.owner = "replicas";
    const bool same = state.Assume(first, "a", kNow)->gpus == state.Assume(second, "a", kNow)->gpus;
    EXPECT_EQ(same, placement == Placement::kBinpack);
  }
}

TEST_F(ClusterStateTest, LeavesWhatTypicalPodsCanUse) {
  for (const auto placement : {Placement::kBinpack, Placement::kFragmentation}) {
    ClusterState state;
    state.SetNode(MakeNode("a", 2, Mode::kCgpu, placement), key_);
    const auto typical = state.Assume(MakePod("p", 7), "a", kNow)->gpus;
    // On the same GPU, 6 GiB would be left, which are of no use to a pod of 7.
    const auto small = state.Assume(MakePod("q", 2), "a", kNow)->gpus;
    EXPECT_EQ(small == typical, placement == Placement::kBinpack);
  }
}

TEST_F(ClusterStateTest, SurvivesAGpuThatGoesOrIsReplaced) {
  state_.SetNode(MakeNode("a", 2), key_);
  const PodAsk pod = MakePod("p", 8);
  const auto decision = state_.Assume(pod, "a", kNow);
  NodeInfo smaller = MakeNode("a", 2);
  smaller.gpus[0].mib = 4096;
  state_.SetNode(smaller, key_);
  EXPECT_EQ(state_.WhyNot(MakePod("q", 1), "a"), "");  // the other one
  EXPECT_EQ(state_.Assume(MakePod("q", 1), "a", kNow)->gpus, std::vector<std::string>{"GPU-a1"});
  NodeInfo one = MakeNode("a", 2);
  one.gpus.erase(one.gpus.begin());
  state_.SetNode(one, key_);
  EXPECT_EQ(state_.UseOf("a").size(), 1U);
  state_.RemovePod("p");
  EXPECT_EQ(MemoryOf("a", "1"), 1U);
}

TEST_F(ClusterStateTest, LeavesRoomInTheAnnotationOfTheNode) {
  state_.SetNode(MakeNode("a", 16, Mode::kCgpu), key_);
  state_.SetNode(MakeNode("b", 1, Mode::kCgpu), key_);
  PodAsk pod = MakePod("p", 1);
  ContainerAsk init = pod.containers[0];
  init.init = true;
  for (std::size_t i = 1; i < kMostParts; ++i) {
    init.name = std::to_string(i + 100) + std::string(27, 'x');
    pod.containers.push_back(init);
  }
  std::size_t pods = 0;
  while (pods < 16 * 15 && state_.WhyNot(pod, "a").empty()) {
    ASSERT_TRUE(state_.Assume(pod, "a", kNow).ok());
    pod.uid = "p" + std::to_string(++pods);
  }
  EXPECT_GE(pods, 20U);
  EXPECT_LE(pods, kMostDecisionsDecided / kMostPartsBytes * 2);
  EXPECT_EQ(state_.WhyNot(pod, "a"),
            "its annotation has no room for what the pod's containers ask for: its pods have too "
            "many containers with a part of a GPU");
  EXPECT_EQ(state_.WhyNot(pod, "b"), "");
  state_.Forget("p");
  EXPECT_EQ(state_.WhyNot(pod, "a"), "");
}

}  // namespace
}  // namespace cgpu::kube
