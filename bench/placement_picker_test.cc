#include "bench/placement_picker.h"

#include <gtest/gtest.h>

#include <random>

#include "placement/fit.h"
#include "placement/testing.h"

namespace cgpu::bench {
namespace {

using placement::Ask;
using placement::AskWhole;
using placement::ChooseBinpack;
using placement::MakeNode;
using placement::Node;
using placement::Request;

TEST(Picker, TakesTheFirstNameAmongEquals) {
  Picker picker({MakeNode("c", 15, {0}), MakeNode("a", 15, {0}), MakeNode("b", 15, {0})},
                ChooseBinpack);
  const auto place = picker.Find(Ask(4));
  ASSERT_TRUE(place);
  EXPECT_EQ(picker.nodes()[place->node].name, "a");
  EXPECT_FALSE(picker.Find(Ask(16)));
  EXPECT_FALSE(Picker({}, ChooseBinpack).Find(Ask(1)));
}

TEST(Picker, GivesBackWhatAPodTook) {
  Node node = MakeNode("a", 15, {0, 3});
  node.cpu_free = 1500;
  Picker picker({node}, ChooseBinpack);
  Request two = Ask(4, 1, 30);
  two.slices = 2;
  two.cpu = 500;
  two.host_memory = 100;
  for (const Request& request : {AskWhole(), two}) {
    const auto place = picker.Find(request);
    ASSERT_TRUE(place);
    picker.Take(*place, request);
    EXPECT_NE(picker.nodes()[0].gpus, node.gpus);
    EXPECT_EQ(picker.nodes()[0].cpu_free, 1500 - request.cpu);
    picker.GiveBack(*place, request);
    EXPECT_EQ(picker.nodes()[0].gpus, node.gpus);
    EXPECT_EQ(picker.nodes()[0].cpu_free, 1500U);
    EXPECT_EQ(picker.nodes()[0].host_memory_free, placement::kPlenty);
  }
}

// After each of many random changes it finds what a look at every node finds.
TEST(Picker, FindsWhatALookAtEveryNodeFinds) {
  const placement::Fragmentation fragmentation(
      {{Ask(4), 0.6}, {Ask(8, 2), 0.3}, {AskWhole(), 0.1}});
  const Picker::Choose choose = [&](const Node& node, const Request& request) {
    return fragmentation.Choose(node, request);
  };
  std::mt19937 engine(1);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  std::vector<Node> nodes;
  for (int i = 0; i < 37; ++i) {
    nodes.push_back(MakeNode("n" + std::to_string(100 + i), 15 + 9 * (random() % 2),
                             std::vector<std::uint32_t>(1 + random() % 4, 0)));
  }
  Picker picker(nodes, choose);
  std::vector<std::pair<Picker::Place, Request>> placed;
  unsigned full = 0;
  for (int step = 0; step < 3000; ++step) {
    const Request request = random() % 9 == 0
                                ? AskWhole(1 + random() % 2)
                                : Ask(1 + random() % 9, 1 + random() % 2, random() % 40);
    const auto place = picker.Find(request);
    std::pair<int, int> best(-1, 0);
    std::size_t at = 0;
    for (std::size_t i = 0; i < picker.nodes().size(); ++i) {
      if (placement::Judge(picker.nodes()[i], request).lack == placement::Lack::kNothing) {
        const placement::Choice choice = choose(picker.nodes()[i], request);
        if (std::pair(choice.score, choice.tie) > best) {
          best = {choice.score, choice.tie};
          at = i;
        }
      }
    }
    ASSERT_EQ(place.has_value(), best.first >= 0) << step;
    if (place) {
      ASSERT_EQ(place->node, at) << step;
      picker.Take(*place, request);
      placed.emplace_back(*place, request);
    } else {
      ++full;
    }
    if (!placed.empty() && (random() % 3 == 0 || !place)) {
      std::swap(placed[random() % placed.size()], placed.back());
      picker.GiveBack(placed.back().first, placed.back().second);
      placed.pop_back();
    }
  }
  EXPECT_GT(full, 50U);
  for (const auto& [place, request] : placed) {
    picker.GiveBack(place, request);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(picker.nodes()[i].gpus, nodes[i].gpus);
  }
}

}  // namespace
}  // namespace cgpu::bench
