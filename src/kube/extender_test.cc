#include "kube/extender.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "kube/names.h"
#include "kube/testing.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

class ExtenderTest : public ::testing::Test {
 protected:
  ExtenderTest()
      : extender_(*Key::ReadPrivate(pem_.whole),
                  [this](const std::string& name_space, const std::string& pod,
                         const std::string& binding) -> Result<> {
                    bound_.push_back(Json::parse(binding));
                    EXPECT_EQ(bound_.back()["metadata"]["namespace"], name_space);
                    EXPECT_EQ(bound_.back()["metadata"]["name"], pod);
                    if (failure_) {
                      return *failure_;
                    }
                    return {};
                  }) {
    for (const char* name : {"a", "b"}) {
      const std::vector<NodeGpu> gpus{{std::string("GPU-") + name, 16160, true}};
      extender_.SetNode(Json{{"metadata",
                              {{"name", name},
                               {"labels", {{kMode, "cgpu"}}},
                               {"annotations", {{kGpus, EncodeGpus(gpus)}}}}}}
                            .dump());
    }
    extender_.SetComplete();
  }

  static Json Pod(const std::string& uid, const std::string& memory) {
    return {
        {"metadata", {{"name", "pod-" + uid}, {"namespace", "n"}, {"uid", uid}}},
        {"spec",
         {{"containers", {{{"name", "main"}, {"resources", {{"limits", {{kMemory, memory}}}}}}}}}}};
  }
  static std::string Question(const Json& pod) {
    return Json{{"Pod", pod}, {"NodeNames", {"a", "b", "c"}}}.dump();
  }
  Json Filter(const Json& pod) { return Json::parse(extender_.Filter(Question(pod))); }
  std::string BindPod(const std::string& uid, const std::string& node) {
    const Json request{
        {"PodName", "pod-" + uid}, {"PodNamespace", "n"}, {"PodUID", uid}, {"Node", node}};
    return Json::parse(extender_.BindPod(request.dump(), kNow))["Error"];
  }

  const PemKey pem_ = MakePemKey();
  std::vector<Json> bound_;
  std::optional<Error> failure_;
  Extender extender_;
};

TEST_F(ExtenderTest, BindsAPodWithItsDecision) {
  const Json filtered = Filter(Pod("1", "8"));
  EXPECT_EQ(filtered["NodeNames"], Json({"a", "b"}));
  EXPECT_EQ(filtered["FailedNodes"]["c"], "cgpu: it has no GPUs of cgpu");
  EXPECT_EQ(BindPod("1", "b"), "");
  ASSERT_EQ(bound_.size(), 1U);
  EXPECT_EQ(bound_[0]["metadata"]["uid"], "1");
  EXPECT_EQ(bound_[0]["target"]["name"], "b");
  const auto decision =
      DecodeDecision(bound_[0]["metadata"]["annotations"][kDecision].get<std::string>(),
                     *Key::ReadPublic(pem_.public_part));
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->pod, "1");
  EXPECT_EQ(decision->node, "b");
  EXPECT_EQ(decision->gpus, std::vector<std::string>{"GPU-b"});
  // The next one has what is left.
  EXPECT_EQ(Filter(Pod("2", "8"))["FailedNodes"]["b"], "cgpu: GPU 0 has 7 of 8 GiB free");
}

TEST_F(ExtenderTest, PrefersOneOfThem) {
  ASSERT_EQ(BindPod("1", "b"), "cgpu-scheduler has not been asked about this pod");
  (void)Filter(Pod("1", "8"));
  ASSERT_EQ(BindPod("1", "b"), "");
  const Json scores = Json::parse(extender_.Prioritize(Question(Pod("2", "2"))));
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[1]["Host"], "b");
  EXPECT_EQ(scores[1]["Score"], 10);
  EXPECT_LT(scores[0]["Score"], 10);
}

TEST_F(ExtenderTest, TakesAPlaceBackThatCannotBeBound) {
  (void)Filter(Pod("1", "15"));
  failure_ = Error{Code::kConflict, 0, "another uid", {}};
  EXPECT_EQ(BindPod("1", "a"), "another uid");
  EXPECT_EQ(Filter(Pod("2", "15"))["NodeNames"], Json({"a", "b"}));
  // Without an answer the pod may be bound: the place stays taken, and a second try gets the same.
  failure_ = Error{Code::kUnavailable, 0, "no answer", {}};
  EXPECT_EQ(BindPod("1", "a"), "no answer");
  EXPECT_EQ(Filter(Pod("2", "15"))["NodeNames"], Json({"b"}));
  failure_.reset();
  EXPECT_EQ(BindPod("1", "a"), "");
  EXPECT_EQ(bound_[1], bound_[2]);
}

TEST_F(ExtenderTest, ForgetsAPodThatIsGone) {
  (void)Filter(Pod("1", "8"));
  extender_.RemovePod("1");
  EXPECT_EQ(BindPod("1", "a"), "cgpu-scheduler has not been asked about this pod");
}

TEST_F(ExtenderTest, TellsOfRoomForPodsThatWereRefused) {
  (void)Filter(Pod("1", "15"));
  (void)Filter(Pod("2", "15"));
  ASSERT_EQ(BindPod("1", "a"), "");
  ASSERT_EQ(BindPod("2", "b"), "");
  EXPECT_EQ(Filter(Pod("3", "8"))["NodeNames"].size(), 0U);
  EXPECT_EQ(Filter(Pod("4", "8"))["NodeNames"].size(), 0U);
  extender_.RemovePod("1");  // of whose end the API server has told
  const auto pods = extender_.WaitForRoom();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0].name_space, "n");
  EXPECT_EQ(pods[0].name, "pod-3");
  extender_.End();
  EXPECT_TRUE(extender_.WaitForRoom().empty());
}

TEST_F(ExtenderTest, StartsAnew) {
  (void)Filter(Pod("1", "15"));
  ASSERT_EQ(BindPod("1", "a"), "");
  extender_.Reset();
  EXPECT_EQ(Filter(Pod("2", "8"))["Error"], "cgpu-scheduler does not know the cluster yet");
  extender_.SetComplete();
  EXPECT_EQ(Filter(Pod("2", "8"))["FailedNodes"]["a"], "cgpu: it has no GPUs of cgpu");
}

TEST_F(ExtenderTest, DecidesNothingBeforeItKnowsTheCluster) {
  Extender fresh(MakeKey(), [](const auto&, const auto&, const auto&) { return Result<>(); });
  EXPECT_EQ(Json::parse(fresh.Filter(Question(Pod("1", "8"))))["Error"],
            "cgpu-scheduler does not know the cluster yet");
}

TEST_F(ExtenderTest, AnswersNonsenseWithAnError) {
  for (const char* body : {"", "{}", "[]", "{\"Pod\": 1, \"NodeNames\": []}"}) {
    EXPECT_NE(Json::parse(extender_.Filter(body))["Error"], "") << body;
    EXPECT_EQ(Json::parse(extender_.Prioritize(body)).size(), 0U) << body;
    EXPECT_NE(Json::parse(extender_.BindPod(body, kNow))["Error"], "") << body;
  }
  EXPECT_EQ(Filter(Pod("1", "half"))["Error"],
            "aliyun.com/gpu-mem of container main is \"half\", which is no whole number");
}

}  // namespace
}  // namespace cgpu::kube
