#include "fleet/fleet.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fleet/answer_testing.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

// A cluster whose nodes have one pod each, called as the node, which keeps its GPU half busy.
class FleetTest : public ::testing::Test {
 protected:
  void AddNode(const std::string& name) {
    const Json pod{{"metadata",
                    {{"uid", name},
                     {"name", "cgpu-node-" + name},
                     {"namespace", "cgpu-system"},
                     {"labels", {{"app", "cgpu-node"}}}}},
                   {"spec", {{"nodeName", name}}}};
    pods_.Set(pod.dump());
  }

  Result<std::string> Answer(const std::string& node) {
    if (silent_ == node) {
      return Error{Code::kUnavailable, 0, "no answer", {}};
    }
    return MakeAnswer(stuck_ ? 1 : now_,
                      {MakeContainer("i", node, {MakePlace("G", std::nullopt, now_ / 2, 0)})});
  }

  Json Overview(double now) {
    now_ = now;
    return Json::parse(fleet_.Overview(now));
  }

  std::string silent_;
  bool stuck_ = false;  // the exporters show the same figures for ever
  double now_ = 0;
  int rounds_ = 0;
  Pods pods_{"cgpu-system"};
  Fleet fleet_{pods_, [this](const std::vector<Exporter>& exporters) {
                 ++rounds_;
                 std::vector<Result<std::string>> answers;
                 for (const Exporter& one : exporters) {
                   answers.push_back(Answer(one.node));
                 }
                 return answers;
               }};
};

TEST_F(FleetTest, ShowsAllNodes) {
  EXPECT_EQ(Overview(1000)["nodes"], Json::array());
  AddNode("b");
  AddNode("a");
  silent_ = "b";
  const Json overview = Overview(1005);
  EXPECT_EQ(overview["kind"], "cluster");
  EXPECT_EQ(overview["time"], 1005);
  ASSERT_EQ(overview["nodes"].size(), 2U);
  EXPECT_EQ(overview["nodes"][0]["name"], "a");
  EXPECT_EQ(overview["nodes"][0]["containers"][0]["pod"], "a");
  EXPECT_EQ(overview["nodes"][1]["name"], "b");
  EXPECT_EQ(overview["nodes"][1]["error"], "no answer");
}

TEST_F(FleetTest, AsksWhenItIsAskedAndNoMoreThanEachFiveSeconds) {
  AddNode("a");
  EXPECT_EQ(rounds_, 0);
  for (const double now : {1000.0, 1001.0, 1004.9}) {
    (void)Overview(now);
    EXPECT_EQ(rounds_, 1) << now;
  }
  (void)Overview(1005);
  EXPECT_EQ(rounds_, 2);
  (void)Overview(900);  // somebody set the clock back
  EXPECT_EQ(rounds_, 3);
}

TEST_F(FleetTest, ComparesAnAnswerWithTheOneBefore) {
  AddNode("a");
  (void)Overview(1000);
  EXPECT_FALSE(fleet_.Find("a", {"n", "a"}).has_value());
  (void)Overview(1010);
  const auto figures = fleet_.Find("a", {"n", "a"});
  ASSERT_TRUE(figures.has_value());
  EXPECT_DOUBLE_EQ(figures->of_pod.busy, 0.5);
  EXPECT_DOUBLE_EQ(figures->of_pod.memory_used, 0.25);
  EXPECT_EQ(figures->seconds, 10);
  EXPECT_EQ(figures->time, 1010);
}

TEST_F(FleetTest, TakesNoNodesWordForPodsOfOthers) {
  AddNode("a");
  AddNode("b");
  (void)Overview(1000);
  (void)Overview(1010);
  EXPECT_TRUE(fleet_.Find("a", {"n", "a"}).has_value());
  EXPECT_FALSE(fleet_.Find("a", {"n", "b"}).has_value());
  EXPECT_FALSE(fleet_.Find("c", {"n", "a"}).has_value());
}

TEST_F(FleetTest, ForgetsFiguresOfANodeThatIsSilentOrGone) {
  AddNode("a");
  (void)Overview(1000);
  (void)Overview(1010);
  silent_ = "a";
  (void)Overview(1020);
  EXPECT_FALSE(fleet_.Find("a", {"n", "a"}).has_value());
  silent_ = "";
  (void)Overview(1030);
  ASSERT_TRUE(fleet_.Find("a", {"n", "a"}).has_value());
  EXPECT_EQ(fleet_.Find("a", {"n", "a"})->seconds, 20);
  pods_.Remove("a");
  (void)Overview(1040);
  EXPECT_FALSE(fleet_.Find("a", {"n", "a"}).has_value());
}

TEST_F(FleetTest, ComparesNothingOld) {
  AddNode("a");
  (void)Overview(1000);
  (void)Overview(1000 + Fleet::kOld + 1);
  EXPECT_FALSE(fleet_.Find("a", {"n", "a"}).has_value());
  (void)Overview(1000 + 2 * Fleet::kOld);
  EXPECT_TRUE(fleet_.Find("a", {"n", "a"}).has_value());
  stuck_ = true;
  (void)Overview(2000);
  EXPECT_FALSE(fleet_.Find("a", {"n", "a"}).has_value());
}

}  // namespace
}  // namespace cgpu::fleet
