#include "kube/pod.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

Json Container(const char* name, Json limits) {
  return {{"name", name}, {"resources", {{"limits", std::move(limits)}}}};
}

Json Pod(Json containers, Json more = Json::object()) {
  Json pod{
      {"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u-1"}, {"labels", Json::object()}}},
      {"spec", {{"containers", std::move(containers)}}}};
  pod.merge_patch(more);
  return pod;
}

TEST(Pod, AsksByItsLimits) {
  const Json json =
      Pod({Container("a", {{kMemory, "8"}, {kCompute, 30}}), Container("b", {{"cpu", "2"}}),
           Container("c", {{kMemory, "1k"}})},
          {{"metadata",
            {{"labels", {{kCount, "2"}}},
             {"ownerReferences", {{{"uid", "x"}}, {{"uid", "rs"}, {"controller", true}}}}}},
           {"spec", {{"nodeName", "node1"}}}});
  const auto pod = ReadPod(json.dump());
  ASSERT_TRUE(pod.ok()) << pod.error().what;
  EXPECT_EQ(pod->name, "p");
  EXPECT_EQ(pod->name_space, "n");
  EXPECT_EQ(pod->uid, "u-1");
  EXPECT_EQ(pod->node, "node1");
  EXPECT_EQ(pod->owner, "rs");
  EXPECT_EQ(pod->gpus, 2U);
  ASSERT_EQ(pod->containers.size(), 2U);
  EXPECT_EQ(pod->containers[0].name, "a");
  EXPECT_EQ(pod->containers[0].memory, 8U);
  EXPECT_EQ(pod->containers[0].compute, 30U);
  EXPECT_EQ(pod->containers[1].memory, 1000U);
  EXPECT_EQ(RequestOf(*pod).memory, 504U);
  EXPECT_EQ(RequestOf(*pod).compute, 15U);
  EXPECT_EQ(RequestOf(*pod).gpus, 2U);
  EXPECT_FALSE(pod->ended);
}

TEST(Pod, HoldsNothingWhenItHasEnded) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    EXPECT_TRUE(ReadPod(Pod(Json::array(), {{"status", {{"phase", phase}}}}).dump())->ended);
  }
  EXPECT_FALSE(ReadPod(Pod(Json::array(), {{"status", {{"phase", "Running"}}}}).dump())->ended);
  EXPECT_FALSE(ReadPod(Pod(Json::array()).dump())->asks());
}

TEST(Pod, RefusesAmountsThatAreNoWholeNumbers) {
  for (const Json& amount :
       {Json("1.5"), Json("500m"), Json("1Gi"), Json(""), Json("-1"), Json(-1), Json(1.5),
        Json(true), Json("99999999999999999999"), Json("2000k"), Json(1'000'001)}) {
    const auto pod = ReadPod(Pod(Json::array({Container("a", {{kMemory, amount}})})).dump());
    ASSERT_FALSE(pod.ok()) << amount;
    EXPECT_EQ(pod.error().what, "aliyun.com/gpu-mem of container a is " + amount.dump() +
                                    ", which is no whole number");
  }
  for (const char* count : {"0", "x", ""}) {
    EXPECT_FALSE(
        ReadPod(Pod(Json::array(), {{"metadata", {{"labels", {{kCount, count}}}}}}).dump()).ok());
  }
  for (const char* text : {"", "[]", "{", "{\"spec\": 1}", "{\"metadata\": {}}", "null"}) {
    EXPECT_FALSE(ReadPod(text).ok()) << text;
  }
  EXPECT_TRUE(ReadPod(R"({"spec": {"containers": [1, {"name": 2, "resources": []}]}})").ok());
}

// As the kubelet runs them: init containers one after the other, sidecars beside all that follow
// (Kubernetes' documentation, "Sidecar Containers", "Resource sharing within containers").
TEST(Pod, AsksForWhatRunsTogether) {
  Json init = Container("init", {{kMemory, "9"}});
  Json sidecar = Container("side", {{kMemory, "2"}});
  sidecar["restartPolicy"] = "Always";
  const Json last = Container("last", {{kMemory, "4"}});
  using List = std::vector<Json>;
  const auto sum = [&](const List& inits, const List& containers) {
    return RequestOf(*ReadPod(Pod(containers, {{"spec", {{"initContainers", inits}}}}).dump()))
        .memory;
  };
  const Json a = Container("a", {{kMemory, "3"}});
  const Json b = Container("b", {{kMemory, "1"}});
  EXPECT_EQ(sum({}, {a, b}), 4U);
  EXPECT_EQ(sum({init}, {a, b}), 9U);
  EXPECT_EQ(sum({init, sidecar}, {a, b}), 9U);
  EXPECT_EQ(sum({sidecar, init}, {a, b}), 11U);
  EXPECT_EQ(sum({sidecar, last}, {a, b}), 6U);
}

TEST(Pod, SharesEvenlyAmongItsGpus) {
  const auto check = [](std::uint32_t gpus, std::uint32_t memory, std::uint32_t compute) {
    PodAsk pod;
    pod.gpus = gpus;
    ContainerAsk one;
    one.name = "a";
    one.memory = memory;
    one.compute = compute;
    pod.containers = {one};
    const auto checked = Check(pod);
    return checked.ok() ? "" : checked.error().what + "; " + checked.error().hint;
  };
  EXPECT_EQ(check(2, 8, 0), "");
  EXPECT_EQ(
      check(3, 8, 0),
      "aliyun.com/gpu-mem of container a is 8, which 3 GPUs cannot share evenly; ask for 9: 3 "
      "GiB of each GPU");
  EXPECT_EQ(
      check(2, 8, 45),
      "aliyun.com/gpu-core.percentage of container a is 45, which 2 GPUs cannot share evenly; "
      "ask for 46: 23 % of each GPU");
  EXPECT_EQ(check(2, 8, 200), "");
  EXPECT_EQ(
      check(2, 8, 202),
      "aliyun.com/gpu-core.percentage of container a is 202, more than 2 GPUs have; ask for at "
      "most 200");
  EXPECT_EQ(check(1, 0, 50),
            "aliyun.com/gpu-core.percentage of container a comes without aliyun.com/gpu-mem; add "
            "aliyun.com/gpu-mem: the memory that the container may have");
}

}  // namespace
}  // namespace cgpu::kube
