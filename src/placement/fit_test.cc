#include "placement/fit.h"

#include <gtest/gtest.h>

#include "placement/testing.h"

namespace cgpu::placement {
namespace {

std::string Reason(const Node& node, const Request& request) {
  return Explain(node, request, Judge(node, request), "GiB");
}

TEST(Fit, NamesTheNearestGpu) {
  const Node node = MakeNode("a", 15, {14, 12, 13});
  EXPECT_EQ(Judge(node, Ask(3)).lack, Lack::kNothing);
  EXPECT_EQ(Reason(node, Ask(4)), "GPU 1 has 3 of 4 GiB free");
  EXPECT_EQ(Reason(node, Ask(3, 2)), "GPU 2 has 2 of 3 GiB free; 1 of 2 GPUs fit");
  EXPECT_EQ(Reason(node, Ask(1, 4)), "it has 3 of 4 GPUs");
}

TEST(Fit, CountsComputeBesideMemory) {
  Node node = MakeNode("a", 15, {0, 0});
  Take(node, Ask(2, 1, 80), {0});
  Take(node, Ask(2), {1});  // memory alone, on a GPU with compute promises to come
  EXPECT_EQ(Judge(node, Ask(2, 2, 20)).lack, Lack::kNothing);
  EXPECT_EQ(Judge(node, Ask(13, 2, 20)).fits, 2U);
  EXPECT_EQ(Reason(node, Ask(2, 2, 30)), "GPU 0 has 20 of 30 % of its time free; 1 of 2 GPUs fit");
  // The GPU that has the memory is nearer than the one that has the time.
  Take(node, Ask(13), {1});
  EXPECT_EQ(Reason(node, Ask(2, 1, 30)), "GPU 0 has 20 of 30 % of its time free");
}

TEST(Fit, KeepsWholeGpusApart) {
  Node node = MakeNode("a", 15, {0, 1, 0});
  EXPECT_EQ(Reason(node, AskWhole(3)), "GPU 1 is shared by 1 container; 2 of 3 GPUs fit");
  Take(node, AskWhole(), {0});
  EXPECT_EQ(LackOf(node.gpus[0], Ask(0)), Lack::kWhole);
  EXPECT_EQ(Judge(node, Ask(15)).lack, Lack::kNothing);  // the third
  Take(node, Ask(15), {2});
  EXPECT_EQ(Reason(node, Ask(15)), "GPU 1 has 14 of 15 GiB free");
}

TEST(Fit, LimitsTheContainersOfAGpu) {
  Node node = MakeNode("a", 80, {0});
  for (std::uint32_t i = 0; i < kMaxSlices; ++i) {
    ASSERT_EQ(LackOf(node.gpus[0], Ask(1)), Lack::kNothing);
    Take(node, Ask(1), {0});
  }
  EXPECT_EQ(Reason(node, Ask(1)), "GPU 0 has 20 of at most 20 containers");
  // A pod of two containers takes two places.
  Request two = Ask(1);
  two.slices = 2;
  node.gpus[0].slices = kMaxSlices - 1;
  EXPECT_EQ(Reason(node, two), "GPU 0 has 19 of at most 20 containers");
  node.gpus[0].slices = kMaxSlices - 2;
  EXPECT_EQ(LackOf(node.gpus[0], two), Lack::kNothing);
  Take(node, two, {0});
  EXPECT_EQ(node.gpus[0].slices, kMaxSlices);
}

TEST(Fit, GivesExclusiveGpusAsWholesAlone) {
  Node node = MakeNode("a", 15, {0});
  node.gpus[0].exclusive = true;
  EXPECT_EQ(Reason(node, Ask(1)), "GPU 0 is given as a whole alone");
  Request whole = Ask(0);
  whole.whole = true;
  EXPECT_EQ(Judge(node, whole).lack, Lack::kNothing);
}

TEST(Fit, LooksAtTheNodeFirst) {
  Node node = MakeNode("a", 15, {0});
  node.model = "T4";
  node.cpu_free = 1500;
  node.host_memory_free = 100;
  Request request = Ask(16);
  EXPECT_EQ(Reason(node, request), "GPU 0 has 15 of 16 GiB free");
  request.host_memory = 200;
  EXPECT_EQ(Reason(node, request), "100 of 200 MiB of memory free");
  request.cpu = 2000;
  EXPECT_EQ(Reason(node, request), "1500 of 2000m processors free");
  request.models = {"A10", "V100"};
  EXPECT_EQ(Reason(node, request), "its GPUs are T4");
  request.models = {"T4"};
  EXPECT_EQ(Judge(node, request).lack, Lack::kCpu);
}

TEST(Fit, LeavesOutUnhealthyGpus) {
  Node node = MakeNode("a", 15, {0, 14});
  node.gpus[0].healthy = false;
  EXPECT_EQ(Judge(node, Ask(1)).lack, Lack::kNothing);
  EXPECT_EQ(Reason(node, Ask(2)), "GPU 1 has 1 of 2 GiB free");
  node.gpus[1].healthy = false;
  EXPECT_EQ(Reason(node, Ask(2)), "GPU 0 is not healthy");
}

}  // namespace
}  // namespace cgpu::placement
