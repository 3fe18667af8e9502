#include "placement/policy.h"

#include <gtest/gtest.h>

#include "placement/testing.h"

namespace cgpu::placement {
namespace {

using Gpus = std::vector<std::uint32_t>;

TEST(Binpack, FillsTheFullestGpuThatFits) {
  const Node node = MakeNode("a", 15, {0, 11, 13, 5});
  EXPECT_EQ(ChooseBinpack(node, Ask(2)).gpus, Gpus({2}));
  EXPECT_EQ(ChooseBinpack(node, Ask(4)).gpus, Gpus({1}));
  EXPECT_EQ(ChooseBinpack(node, Ask(4, 2)).gpus, Gpus({1, 3}));
  EXPECT_EQ(ChooseBinpack(node, AskWhole()).gpus, Gpus({0}));
}

TEST(Binpack, PrefersTheFullerNode) {
  const Node full = MakeNode("a", 15, {15, 8});
  const Node empty = MakeNode("b", 15, {0, 0});
  const Node half = MakeNode("c", 15, {0, 8});
  EXPECT_GT(ChooseBinpack(full, Ask(4)).score, ChooseBinpack(half, Ask(4)).score);
  EXPECT_GT(ChooseBinpack(half, Ask(4)).score, ChooseBinpack(empty, Ask(4)).score);
}

TEST(Spread, TakesTheEmptiestGpuAndNode) {
  const Node node = MakeNode("a", 15, {9, 3, 13, 5});
  EXPECT_EQ(ChooseSpread(node, Ask(2), {}).gpus, Gpus({1}));
  EXPECT_EQ(ChooseSpread(node, Ask(2, 3), {}).gpus, Gpus({1, 3, 0}));
  EXPECT_GT(ChooseSpread(MakeNode("b", 15, {0, 0}), Ask(2), {}).score,
            ChooseSpread(node, Ask(2), {}).score);
}

TEST(Spread, KeepsReplicasApart) {
  const Node node = MakeNode("a", 15, {1, 14});
  EXPECT_EQ(ChooseSpread(node, Ask(1), {1, 0}).gpus, Gpus({1}));
  // No replica on the node, then none on the GPU, then the rest; however full they are.
  const int none = ChooseSpread(MakeNode("b", 15, {14, 14}), Ask(1), {}).score;
  const int other_gpu = ChooseSpread(MakeNode("c", 15, {0, 1}), Ask(1), {0, 1}).score;
  const int same_gpu = ChooseSpread(MakeNode("d", 15, {1}), Ask(1), {1}).score;
  EXPECT_GT(none, other_gpu);
  EXPECT_GT(other_gpu, same_gpu);
}

TEST(Typical, AreTheMostFrequentOnes) {
  std::vector<Request> requests(6, Ask(4));
  requests.insert(requests.end(), 3, Ask(8));
  requests.push_back(AskWhole());
  const auto typical = TypicalOf(requests, 90);
  ASSERT_EQ(typical.size(), 2U);
  EXPECT_EQ(typical[0].request, Ask(4));
  EXPECT_DOUBLE_EQ(typical[0].weight, 6.0 / 9);
  EXPECT_DOUBLE_EQ(typical[1].weight, 3.0 / 9);
  EXPECT_EQ(TypicalOf(requests, 91).size(), 3U);
  EXPECT_TRUE(TypicalOf({}, 95).empty());
}

// By hand: half of the pods ask for 10 of 20 units, half for a whole GPU.
TEST(Fragmentation, IsWhatTypicalPodsCannotUse) {
  const Fragmentation fragmentation({{Ask(10), 0.5}, {AskWhole(), 0.5}});
  EXPECT_DOUBLE_EQ(fragmentation.Amount(MakeNode("a", 20, {0, 0})), 0);
  // The second GPU is of no use to those that want a whole one.
  EXPECT_DOUBLE_EQ(fragmentation.Amount(MakeNode("a", 20, {0, 10})), 0.5 * 500);
  // Nor the first: all 950 thousandths are lost to them, and the 450 to the others.
  EXPECT_DOUBLE_EQ(fragmentation.Amount(MakeNode("a", 20, {10, 11})), 0.5 * 950 + 0.5 * 450);
  // Where the node lacks processors, all is lost.
  Node node = MakeNode("a", 20, {0});
  node.cpu_free = 100;
  Request request = Ask(10);
  request.cpu = 200;
  EXPECT_DOUBLE_EQ(Fragmentation({{request, 1}}).Amount(node), 1000);
}

TEST(Fragmentation, TakesTheGpuWhoseRestIsOfUse) {
  const Fragmentation fragmentation({{Ask(10), 0.7}, {AskWhole(), 0.3}});
  // 5 units: from the first it leaves 10, which half of the pods can use; from the second 7.
  EXPECT_EQ(fragmentation.Choose(MakeNode("a", 20, {8, 5}), Ask(5)).gpus, Gpus({1}));
  // It does not break a whole GPU.
  EXPECT_EQ(fragmentation.Choose(MakeNode("a", 20, {0, 10}), Ask(10)).gpus, Gpus({1}));
  EXPECT_EQ(fragmentation.Choose(MakeNode("a", 20, {0, 10, 10}), Ask(10, 2)).gpus, Gpus({1, 2}));
  EXPECT_EQ(fragmentation.Choose(MakeNode("a", 20, {4, 0, 0}), AskWhole(2)).gpus, Gpus({1, 2}));
}

TEST(Fragmentation, CountsNoMemoryThatNobodyGets) {
  const Fragmentation fragmentation({{Ask(10), 1}});
  Node node = MakeNode("a", 20, {15, 0});
  EXPECT_DOUBLE_EQ(fragmentation.Amount(node), 250);
  node.gpus[0].healthy = false;
  EXPECT_DOUBLE_EQ(fragmentation.Amount(node), 0);
}

}  // namespace
}  // namespace cgpu::placement
