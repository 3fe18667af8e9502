#include "fleet/answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

constexpr double kGib = 1 << 30;

Json Gpu(const std::string& uuid, const Json& share, double busy, double waiting) {
  return {{"uuid", uuid},     {"limit", 8 * kGib},    {"used", 2 * kGib},
          {"share", share},   {"busy_seconds", busy}, {"waiting_seconds", waiting},
          {"peak", 3 * kGib}, {"share_max", nullptr}};
}

Json Container(const std::string& id, const std::string& pod, const std::vector<Json>& gpus) {
  return {{"id", id}, {"namespace", pod.empty() ? "" : "n"}, {"pod", pod}, {"gpus", gpus}};
}

std::string Answer(double time, const std::vector<Json>& containers, double counted = 0) {
  const Json gpu{{"uuid", "G"}, {"counted_seconds", counted}};
  const Json node{{"name", "host"},
                  {"error", nullptr},
                  {"time", time},
                  {"gpus", Json::array({gpu})},
                  {"containers", containers},
                  {"events", Json::array()}};
  return Json{{"kind", "node"}, {"time", time}, {"nodes", Json::array({node})}}.dump();
}

std::map<PodName, PodFigures> Between(const std::vector<Json>& before,
                                      const std::vector<Json>& now) {
  return FiguresBetween(*ReadAnswer(Answer(100, before), "a"), *ReadAnswer(Answer(110, now), "a"));
}

TEST(Answer, GetsTheNameOfItsKubernetesNode) {
  const auto answer = ReadAnswer(Answer(7, {}), "node-a");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->time, 7);
  const Json object = Json::parse(answer->json);
  EXPECT_EQ(object["name"], "node-a");
  EXPECT_EQ(object["error"], nullptr);
}

TEST(Answer, OfNoOverviewIsRefused) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), std::string(R"({"nodes":{}})"),
        std::string(R"({"nodes":[]})"), std::string(R"({"nodes":[3]})"),
        std::string(R"({"nodes":[{},{}]})"),
        std::string(R"({"nodes":[{"gpus":[],"containers":[]}]})"),
        std::string(R"({"nodes":[{"gpus":[],"containers":{},"events":[]}]})"),
        std::string(
            "{\"nodes\":[{\"gpus\":[],\"containers\":[],\"events\":[],\"name\":\"\x80\"}]}"),
        R"({"nodes":[{"gpus":[],"containers":[],"events":[],"x":)" + deep + "}]}"}) {
    EXPECT_EQ(ReadAnswer(text, "a").error().code, Code::kInvalid) << text.substr(0, 80);
  }
}

TEST(Answer, OfAnythingElseInsideIsTaken) {
  const std::vector<Json> odd{
      3, "x", nullptr, Container("i", "p", {3, nullptr}),
      Container("k", "p", {Json{{"uuid", 3}, {"limit", "x"}, {"busy_seconds", -1}}})};
  EXPECT_EQ(Between(odd, odd).count({"n", "q"}), 0U);
  for (const auto& [pod, figures] : Between(odd, odd)) {
    EXPECT_EQ(figures.busy, 0) << pod.second;
    EXPECT_EQ(figures.memory_used, 0) << pod.second;
  }
}

TEST(Answer, OfASilentNodeSaysWhy) {
  const Json object = Json::parse(SilentNode("a", "it is \xff off"));
  EXPECT_EQ(object["name"], "a");
  EXPECT_EQ(object["error"], "it is \xef\xbf\xbd off");
  EXPECT_TRUE(object["gpus"].is_array() && object["containers"].is_array() &&
              object["events"].is_array());
}

TEST(Figures, ArePartsOfThePromisedShare) {
  const auto pods = Between({Container("i", "p", {Gpu("G", 0.5, 20, 1)})},
                            {Container("i", "p", {Gpu("G", 0.5, 24, 3)})});
  const PodFigures& figures = pods.at({"n", "p"});
  EXPECT_DOUBLE_EQ(figures.busy, 0.4);
  EXPECT_DOUBLE_EQ(figures.share_used, 0.8);
  EXPECT_DOUBLE_EQ(figures.waiting, 0.2);
  EXPECT_DOUBLE_EQ(figures.memory_used, 0.25);
}

TEST(Figures, ArePartsOfTheGpuWhereNothingIsPromised) {
  const auto pods = Between({Container("i", "p", {Gpu("G", nullptr, 0, 0)})},
                            {Container("i", "p", {Gpu("G", nullptr, 4, 0)})});
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).share_used, 0.4);
}

TEST(Figures, AreOfAllGpusAndContainersOfAPod) {
  const auto pods = Between({Container("i", "p", {Gpu("G", 0.5, 0, 0), Gpu("H", 0.5, 0, 0)}),
                             Container("j", "p", {Gpu("G", 0.25, 0, 0)}), Container("k", "q", {}),
                             Container("l", "", {Gpu("G", 1, 0, 0)})},
                            {Container("i", "p", {Gpu("G", 0.5, 5, 4), Gpu("H", 0.5, 2.5, 0)}),
                             Container("j", "p", {Gpu("G", 0.25, 0, 5)}), Container("k", "q", {}),
                             Container("l", "", {Gpu("G", 1, 9, 0)})});
  ASSERT_EQ(pods.size(), 1U);
  const PodFigures& figures = pods.at({"n", "p"});
  EXPECT_DOUBLE_EQ(figures.busy, 0.75);
  EXPECT_DOUBLE_EQ(figures.share_used, 0.6);
  EXPECT_DOUBLE_EQ(figures.waiting, 0.3);
}

TEST(Figures, CountFromZeroWhatIsNewOrBeganAgain) {
  const auto pods = Between(
      {Container("i", "p", {Gpu("G", 1, 50, 0)})},
      {Container("i", "p", {Gpu("G", 1, 2, 0)}), Container("new", "q", {Gpu("G", 1, 3, 0)})});
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).busy, 0.2);
  EXPECT_DOUBLE_EQ(pods.at({"n", "q"}).busy, 0.3);
}

TEST(Figures, AreOfTheTimeThatIsCounted) {
  const auto between = [](double counted) {
    const auto before =
        ReadAnswer(Answer(100, {Container("i", "p", {Gpu("G", 1, 0, 0)})}, 50), "a");
    const auto now =
        ReadAnswer(Answer(110, {Container("i", "p", {Gpu("G", 1, 4, 2)})}, counted), "a");
    return FiguresBetween(*before, *now).at({"n", "p"});
  };
  EXPECT_DOUBLE_EQ(between(58).busy, 0.5);
  EXPECT_DOUBLE_EQ(between(58).waiting, 0.25);
  EXPECT_DOUBLE_EQ(between(8).busy, 0.5) << "the exporter began again";
  EXPECT_DOUBLE_EQ(between(50).busy, 0.4) << "nothing was counted";
}

TEST(Figures, AreNoMoreThanTheTime) {
  const auto pods = Between({Container("i", "p", {Gpu("G", 1, 0, 0)})},
                            {Container("i", "p", {Gpu("G", 1, 1e300, 1e300)})});
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).busy, 1);
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).waiting, 1);
}

TEST(Figures, NeedTime) {
  const auto answer = ReadAnswer(Answer(100, {Container("i", "p", {Gpu("G", 1, 0, 0)})}), "a");
  EXPECT_TRUE(FiguresBetween(*answer, *answer).empty());
}

}  // namespace
}  // namespace cgpu::fleet
