#include "fleet/answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "fleet/answer_testing.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

std::map<PodName, PodFigures> Between(const std::vector<std::string>& before,
                                      const std::vector<std::string>& now) {
  return FiguresBetween(*ReadAnswer(MakeAnswer(100, before), "a"),
                        *ReadAnswer(MakeAnswer(110, now), "a"));
}

TEST(Answer, GetsTheNameOfItsKubernetesNode) {
  const auto answer = ReadAnswer(MakeAnswer(7, {}), "node-a");
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

TEST(Answer, OfAnotherFormIsRefused) {
  const Json whole =
      Json::parse(MakeAnswer(100, {MakeContainer("i", "p", {MakePlace("G", 0.5, 0, 0)})}));
  ASSERT_TRUE(ReadAnswer(whole.dump(), "a").ok());
  int members = 0;
  const Json flat = whole.at("nodes").at(0).flatten();
  for (const auto& [path, value] : flat.items()) {
    for (const Json& wrong : {Json::array(), Json(Json::value_t::object)}) {
      Json answer = whole;
      answer["nodes"][0][Json::json_pointer(path)] = wrong;
      EXPECT_FALSE(ReadAnswer(answer.dump(), "a").ok()) << path;
    }
    ++members;
  }
  EXPECT_GT(members, 45);
  for (const char* path : {"/name", "/gpus/0/memory", "/gpus/0/uuid", "/containers/0/gpus",
                           "/containers/0/gpus/0/limit", "/events/0/sentence"}) {
    Json answer = whole;
    Json& node = answer["nodes"][0];
    const Json::json_pointer pointer(path);
    node.at(pointer.parent_pointer()).erase(pointer.back());
    EXPECT_FALSE(ReadAnswer(answer.dump(), "a").ok()) << path;
  }
}

TEST(Answer, MayHaveMore) {
  Json answer = Json::parse(MakeAnswer(100, {}));
  answer["nodes"][0]["more"] = {1, 2};
  answer["nodes"][0]["gpus"][0]["more"] = "x";
  EXPECT_TRUE(ReadAnswer(answer.dump(), "a").ok());
  answer["nodes"][0]["gpus"][0]["uuid"] = 3;
  EXPECT_FALSE(ReadAnswer(answer.dump(), "a").ok());
}

TEST(Answer, OfASilentNodeSaysWhy) {
  const Json object = Json::parse(SilentNode("a", "it is \xff off"));
  EXPECT_EQ(object["name"], "a");
  EXPECT_EQ(object["error"], "it is \xef\xbf\xbd off");
  EXPECT_TRUE(object["gpus"].is_array() && object["containers"].is_array() &&
              object["events"].is_array());
}

TEST(Figures, ArePartsOfThePromisedShare) {
  const auto pods = Between({MakeContainer("i", "p", {MakePlace("G", 0.5, 20, 1)})},
                            {MakeContainer("i", "p", {MakePlace("G", 0.5, 24, 3)})});
  const PodFigures& figures = pods.at({"n", "p"});
  EXPECT_DOUBLE_EQ(figures.busy, 0.4);
  EXPECT_DOUBLE_EQ(figures.share_used, 0.8);
  EXPECT_DOUBLE_EQ(figures.waiting, 0.2);
  EXPECT_DOUBLE_EQ(figures.memory_used, 0.25);
}

TEST(Figures, ArePartsOfTheGpuWhereNothingIsPromised) {
  const auto pods = Between({MakeContainer("i", "p", {MakePlace("G", std::nullopt, 0, 0)})},
                            {MakeContainer("i", "p", {MakePlace("G", std::nullopt, 4, 0)})});
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).share_used, 0.4);
}

TEST(Figures, AreOfAllGpusAndContainersOfAPod) {
  const auto pods =
      Between({MakeContainer("i", "p", {MakePlace("G", 0.5, 0, 0), MakePlace("H", 0.5, 0, 0)}),
               MakeContainer("j", "p", {MakePlace("G", 0.25, 0, 0)}), MakeContainer("k", "q", {}),
               MakeContainer("l", "", {MakePlace("G", 1, 0, 0)})},
              {MakeContainer("i", "p", {MakePlace("G", 0.5, 5, 4), MakePlace("H", 0.5, 2.5, 0)}),
               MakeContainer("j", "p", {MakePlace("G", 0.25, 0, 5)}), MakeContainer("k", "q", {}),
               MakeContainer("l", "", {MakePlace("G", 1, 9, 0)})});
  ASSERT_EQ(pods.size(), 1U);
  const PodFigures& figures = pods.at({"n", "p"});
  EXPECT_DOUBLE_EQ(figures.busy, 0.75);
  EXPECT_DOUBLE_EQ(figures.share_used, 0.6);
  EXPECT_DOUBLE_EQ(figures.waiting, 0.3);
}

TEST(Figures, CountFromZeroWhatIsNewOrBeganAgain) {
  const auto pods = Between({MakeContainer("i", "p", {MakePlace("G", 1, 50, 0)})},
                            {MakeContainer("i", "p", {MakePlace("G", 1, 2, 0)}),
                             MakeContainer("new", "q", {MakePlace("G", 1, 3, 0)})});
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).busy, 0.2);
  EXPECT_DOUBLE_EQ(pods.at({"n", "q"}).busy, 0.3);
}

TEST(Figures, AreOfTheTimeThatIsCounted) {
  const auto between = [](double counted) {
    const auto before =
        ReadAnswer(MakeAnswer(100, {MakeContainer("i", "p", {MakePlace("G", 1, 0, 0)})}, 50), "a");
    const auto now = ReadAnswer(
        MakeAnswer(110, {MakeContainer("i", "p", {MakePlace("G", 1, 4, 2)})}, counted), "a");
    return FiguresBetween(*before, *now).at({"n", "p"});
  };
  EXPECT_DOUBLE_EQ(between(58).busy, 0.5);
  EXPECT_DOUBLE_EQ(between(58).waiting, 0.25);
  EXPECT_DOUBLE_EQ(between(8).busy, 0.5) << "the exporter began again";
  EXPECT_DOUBLE_EQ(between(50).busy, 0.4) << "nothing was counted";
}

TEST(Figures, AreNoMoreThanTheTime) {
  const auto pods = Between({MakeContainer("i", "p", {MakePlace("G", 1, 0, 0)})},
                            {MakeContainer("i", "p", {MakePlace("G", 1, 1e300, 1e300)})});
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).busy, 1);
  EXPECT_DOUBLE_EQ(pods.at({"n", "p"}).waiting, 1);
}

TEST(Figures, NeedTime) {
  const auto answer =
      ReadAnswer(MakeAnswer(100, {MakeContainer("i", "p", {MakePlace("G", 1, 0, 0)})}), "a");
  EXPECT_TRUE(FiguresBetween(*answer, *answer).empty());
}

}  // namespace
}  // namespace cgpu::fleet
