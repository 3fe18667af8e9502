#include "kube/admission.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>

#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

Json ReviewedPod(const char* memory, Json more = Json::object()) {
  Json pod{{"metadata", {{"name", "p"}}},
           {"spec",
            {{"schedulerName", "default-scheduler"},
             {"containers", {{{"name", "a"}, {"resources", {{"limits", {{kMemory, memory}}}}}}}}}}};
  pod.merge_patch(more);
  return pod;
}

Json Ask(const Json& pod, const AdmissionRules& rules = {}) {
  const Json review{{"kind", "AdmissionReview"}, {"request", {{"uid", "r-1"}, {"object", pod}}}};
  const Json answer = Json::parse(Review(review.dump(), rules));
  EXPECT_EQ(answer["response"]["uid"], "r-1");
  return answer["response"];
}

std::string Refusal(const Json& pod, const AdmissionRules& rules = {}) {
  const Json response = Ask(pod, rules);
  EXPECT_EQ(response["allowed"], false);
  return response["allowed"] == false ? response["status"]["message"].get<std::string>() : "";
}

// Returns the pod as the API server changes it.
Json Patched(const Json& pod, const AdmissionRules& rules = {}) {
  const Json response = Ask(pod, rules);
  EXPECT_EQ(response["allowed"], true);
  if (!response.contains("patch")) {
    return pod;
  }
  EXPECT_EQ(response["patchType"], "JSONPatch");
  const auto base64 = response["patch"].get<std::string>();
  std::string text(base64.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(base64.data()),
                                   static_cast<int>(base64.size()));
  EXPECT_GT(size, 0);
  text.resize(static_cast<std::size_t>(size));
  text.erase(text.find_last_of(']') + 1);  // padding decodes to zeros
  return pod.patch(Json::parse(text));
}

TEST(Admission, GivesAPodWhatItNeeds) {
  const Json pod = Patched(ReviewedPod("8"));
  EXPECT_EQ(pod["spec"]["schedulerName"], "cgpu-scheduler");
  EXPECT_EQ(pod["spec"]["runtimeClassName"], "cgpu");
  const Json named =
      ReviewedPod("8", {{"spec", {{"schedulerName", "mine"}, {"runtimeClassName", "cgpu"}}}});
  EXPECT_EQ(Patched(named), named);
}

TEST(Admission, LeavesOtherPodsAlone) {
  Json pod = ReviewedPod("8");
  pod["spec"]["containers"][0]["resources"] = {{"limits", {{"nvidia.com/gpu", "1"}}}};
  EXPECT_EQ(Patched(pod), pod);
  pod["spec"]["runtimeClassName"] = "nvidia";
  EXPECT_EQ(Patched(pod), pod);
}

TEST(Admission, TakesHamiNamesWhereTheyAreAccepted) {
  Json pod = ReviewedPod("8");
  const Json hami{{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem", "4096"}};
  // The API server has filled in the requests.
  pod["spec"]["containers"][0]["resources"] = {{"limits", hami}, {"requests", hami}};
  EXPECT_EQ(Patched(pod), pod);
  AdmissionRules rules;
  rules.hami_names = true;
  const Json ours = Patched(pod, rules);
  EXPECT_EQ(ours["spec"]["containers"][0]["resources"],
            (Json{{"limits", {{kMemory, "8"}}}, {"requests", Json::object()}}));
  EXPECT_EQ(ours["metadata"]["labels"][kCount], "2");
  EXPECT_EQ(ours["spec"]["runtimeClassName"], "cgpu");
  EXPECT_EQ(ours["spec"]["schedulerName"], "cgpu-scheduler");
  EXPECT_EQ(Patched(ReviewedPod("8"), rules), Patched(ReviewedPod("8")));
  for (const char* body : {"", "{}", "[]", R"({"request": {"object": 1}})"}) {
    EXPECT_EQ(Json::parse(Review(body, rules))["response"]["allowed"], false) << body;
  }
}

TEST(Admission, RefusesHighPriorityWithoutItsClass) {
  Json pod = ReviewedPod("8", {{"spec", {{"priorityClassName", "batch"}}}});
  pod["spec"]["containers"][0]["env"] = {{{"name", "ALIYUN_COM_GPU_HIGH_PRIO"}, {"value", "1"}}};
  AdmissionRules rules;
  rules.pods.high_priority_classes = {"online"};
  EXPECT_EQ(Refusal(pod, rules),
            "cgpu: container a asks for high priority, which the class batch does not give; set "
            "priorityClassName to one of these: online");
  pod["spec"]["priorityClassName"] = "online";
  EXPECT_EQ(Ask(pod, rules)["allowed"], true);
}

TEST(Admission, RefusesWithANumberThatWouldDo) {
  EXPECT_EQ(
      Refusal(ReviewedPod("8", {{"metadata", {{"labels", {{kCount, "3"}}}}}})),
      "cgpu: aliyun.com/gpu-mem of container a is 8, which 3 GPUs cannot share evenly; ask for "
      "9: 3 GiB of each GPU");
  AdmissionRules rules;
  rules.largest = 15;
  EXPECT_EQ(Refusal(ReviewedPod("16"), rules),
            "cgpu: the pod asks for 16 GiB of each GPU; the largest GPU of the cluster has 15; ask "
            "for at most 15, or set the label aliyun.com/gpu-count to share it over more GPUs");
  EXPECT_EQ(Ask(ReviewedPod("15"), rules)["allowed"], true);
  EXPECT_EQ(Refusal(ReviewedPod("8", {{"spec", {{"runtimeClassName", "nvidia"}}}})),
            "cgpu: the pod asks for a part of a GPU and has the runtime class nvidia; leave "
            "runtimeClassName out, or set it to cgpu");
  EXPECT_EQ(Refusal(ReviewedPod("1Gi")),
            "cgpu: aliyun.com/gpu-mem of container a is \"1Gi\", which is no whole number; write a "
            "whole number, for example \"8\"");
  Json two = ReviewedPod("4");
  two["spec"]["containers"][0]["resources"]["limits"][kCompute] = "60";
  two["spec"]["containers"].push_back(two["spec"]["containers"][0]);
  two["spec"]["containers"][1]["name"] = "b";
  EXPECT_EQ(Refusal(two),
            "cgpu: the pod's containers take 120 % of each GPU together, where one without a "
            "percentage counts 1 %; ask for at most 100 together");
}

TEST(Admission, RefusesAForgedDecision) {
  const Json pod = ReviewedPod("8", {{"metadata", {{"annotations", {{kDecision, "x"}}}}}});
  EXPECT_EQ(Refusal(pod),
            "cgpu: the annotation cgpu.dev/decision is cgpu-scheduler's to write; leave it out");
}

TEST(Admission, RefusesNonsense) {
  for (const char* body : {"", "{}", "[]", R"({"request": {"object": 1}})"}) {
    EXPECT_EQ(Json::parse(Review(body, {}))["response"]["allowed"], false) << body;
  }
  std::string deep = R"({"request": {"object": )";
  for (int i = 0; i < 1'000'000; ++i) {
    deep += "{\"spec\":";
  }
  EXPECT_EQ(Json::parse(Review(deep, {}))["response"]["allowed"], false);
}

TEST(Admission, RefusesMoreValuesThanAPodHas) {
  Json pod = ReviewedPod("8");
  pod["spec"]["x"] = std::vector<int>(1000, 1);
  EXPECT_EQ(Ask(pod)["allowed"], true);
  pod["spec"]["x"] = std::vector<int>(1'000'000, 1);
  const Json review{{"request", {{"uid", "r-1"}, {"object", pod}}}};
  EXPECT_EQ(Json::parse(Review(review.dump(), {}))["response"]["allowed"], false);
}

}  // namespace
}  // namespace cgpu::kube
