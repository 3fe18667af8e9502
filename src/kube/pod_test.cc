#include "kube/pod.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "kube/decision.h"
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
  EXPECT_EQ(RequestOf(*pod).compute, 16U);  // 1 % for the one without a percentage
  EXPECT_EQ(RequestOf(*pod).slices, 2U);
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

// Returns what Check() says of the pod; "" if it can be.
std::string Said(const Json& json, const PodRules& rules = {}) {
  const auto pod = ReadPod(json.dump());
  EXPECT_TRUE(pod.ok());
  const auto checked = Check(*pod, rules);
  return checked.ok() ? "" : checked.error().what + "; " + checked.error().hint;
}

Json WithCount(Json containers, const char* count) {
  return Pod(std::move(containers), {{"metadata", {{"labels", {{kCount, count}}}}}});
}

TEST(Pod, RefusesWhatItCannotRead) {
  EXPECT_EQ(Said(Pod(Json::array({Container("a", {{kMemory, "1Gi"}})}))),
            "aliyun.com/gpu-mem of container a is \"1Gi\", which is no whole number; write a whole "
            "number, for example \"8\"");
  EXPECT_EQ(Said(WithCount(Json::array(), "0")),
            "the label aliyun.com/gpu-count is 0; leave it out for one GPU");
  EXPECT_EQ(Said(WithCount(Json::array(), "x")),
            "the label aliyun.com/gpu-count is \"x\", which is no whole number; write a whole "
            "number, for example \"8\"");
  for (const char* text : {"", "[]", "{", "{\"spec\": 1}", "{\"metadata\": {}}", "null"}) {
    EXPECT_FALSE(ReadPod(text).ok()) << text;
  }
  EXPECT_TRUE(ReadPod(R"({"spec": {"containers": [1, {"name": 2, "resources": []}]}})").ok());
}

// Labels can be changed while a pod runs: what it is called and what was decided is read all the
// same.
TEST(Pod, IsReadWithAMistake) {
  Json json = WithCount(Json::array({Container("a", {{kMemory, "8"}})}), "many");
  json["metadata"]["annotations"] = {{kDecision, "d"}};
  const auto pod = ReadPod(json.dump());
  ASSERT_TRUE(pod.ok());
  EXPECT_TRUE(pod->mistake.has_value());
  EXPECT_EQ(pod->uid, "u-1");
  EXPECT_EQ(pod->decision, "d");
  EXPECT_TRUE(pod->asks());
}

// The cases of TestPodResourceRequests and TestAggregateContainerRequestsAndLimits in Kubernetes'
// component-helpers (v0.37.2, resource/helpers_test.go) that are about the order of containers.
// Capital letters are sidecars: "5 A1 / 1" is an init container of 5, a sidecar of 1, then a
// container of 1.
struct Order {
  const char* name;
  std::vector<const char*> inits;
  std::vector<const char*> containers;
  std::uint32_t memory;
  std::uint32_t slices;
};

const Order kOrders[] = {
    {"larger init container", {"4"}, {"1"}, 4, 1},
    {"larger containers", {"4"}, {"2", "3"}, 5, 2},
    {"restartable init container", {"A1"}, {"1"}, 2, 2},
    {"multiple restartable init containers", {"5", "A1", "B2", "C3"}, {"1"}, 7, 4},
    {"multiple restartable and regular", {"5", "A1", "B2", "5", "C3"}, {"1"}, 8, 4},
    {"restartable-init, init and regular", {"A10", "200"}, {"100"}, 210, 2},
    {"regular and init containers", {"3"}, {"2", "1"}, 3, 2},
    {"an init container that asks for nothing", {"0", "A2", "0"}, {"1", "0"}, 3, 2},
    {"sidecars alone", {"A1", "9", "B1"}, {}, 10, 2},
};

TEST(Pod, AsksForWhatRunsTogether) {
  for (const Order& order : kOrders) {
    const auto list = [](const std::vector<const char*>& from) {
      Json all = Json::array();
      for (const std::string text : from) {
        const bool sidecar = text[0] >= 'A';
        all.push_back(Container(text.c_str(), {{kMemory, text.substr(sidecar ? 1 : 0)}}));
        if (sidecar) {
          all.back()["restartPolicy"] = "Always";
        }
      }
      return all;
    };
    const auto pod = ReadPod(
        Pod(list(order.containers), {{"spec", {{"initContainers", list(order.inits)}}}}).dump());
    EXPECT_EQ(RequestOf(*pod).memory, order.memory) << order.name;
    EXPECT_EQ(RequestOf(*pod).slices, order.slices) << order.name;
    EXPECT_EQ(RequestOf(*pod).compute, order.slices) << order.name;  // 1 % for each
  }
}

struct Numbers {
  const char* gpus;
  const char* memory;
  const char* compute;
  const char* said;
};

const Numbers kNumbers[] = {
    {"1", "8", "0", ""},
    {"2", "8", "0", ""},
    {"3", "8", "0",
     "aliyun.com/gpu-mem of container a is 8, which 3 GPUs cannot share evenly; ask for 9: 3 GiB "
     "of "
     "each GPU"},
    {"4", "3", "0",
     "aliyun.com/gpu-mem of container a is 3, which 4 GPUs cannot share evenly; ask for 4: 1 GiB "
     "of "
     "each GPU"},
    {"1", "8", "5", ""},
    {"1", "8", "100", ""},
    {"1", "8", "4",
     "aliyun.com/gpu-core.percentage of container a is 4, which is no multiple of 5; ask for 5"},
    {"1", "8", "33",
     "aliyun.com/gpu-core.percentage of container a is 33, which is no multiple of 5; ask for 35"},
    {"1", "8", "99",
     "aliyun.com/gpu-core.percentage of container a is 99, which is no multiple of 5; ask for 100"},
    {"1", "8", "101",
     "aliyun.com/gpu-core.percentage of container a is 101, more than 1 GPU has; ask for at most "
     "100"},
    {"2", "8", "60", ""},
    {"2", "8", "200", ""},
    {"2", "8", "45",
     "aliyun.com/gpu-core.percentage of container a is 45, which is no multiple of 5 on each of 2 "
     "GPUs; ask for 50: 25 % of each GPU"},
    {"2", "8", "5",
     "aliyun.com/gpu-core.percentage of container a is 5, which is no multiple of 5 on each of 2 "
     "GPUs; ask for 10: 5 % of each GPU"},
    {"2", "8", "210",
     "aliyun.com/gpu-core.percentage of container a is 210, more than 2 GPUs have; ask for at most "
     "200"},
    {"1", "0", "50",
     "aliyun.com/gpu-core.percentage of container a comes without aliyun.com/gpu-mem; add "
     "aliyun.com/gpu-mem: the memory that the container may have"},
};

TEST(Pod, IsCheckedByTheNumber) {
  for (const Numbers& one : kNumbers) {
    const Json containers =
        Json::array({Container("a", {{kMemory, one.memory}, {kCompute, one.compute}})});
    EXPECT_EQ(Said(WithCount(containers, one.gpus)), one.said)
        << one.gpus << ' ' << one.memory << ' ' << one.compute;
  }
}

TEST(Pod, IsCheckedAsAWhole) {
  const auto part = [](const char* name, const char* compute) {
    return Container(name, {{kMemory, "1"}, {kCompute, compute}});
  };
  EXPECT_EQ(Said(Pod(Json::array({part("a", "60"), part("b", "40")}))), "");
  EXPECT_EQ(Said(Pod(Json::array({part("a", "60"), part("b", "60")}))),
            "the pod's containers take 120 % of each GPU together, where one without a percentage "
            "counts 1 %; ask for at most 100 together");
  EXPECT_EQ(Said(Pod(Json::array({part("a", "100"), part("b", "0")}))),
            "the pod's containers take 101 % of each GPU together, where one without a percentage "
            "counts 1 %; ask for at most 100 together");
  // An init container has ended when the others run.
  EXPECT_EQ(Said(Pod(Json::array({part("a", "100")}),
                     {{"spec", {{"initContainers", Json::array({part("i", "100")})}}}})),
            "");
  Json many = Json::array();
  for (int i = 0; i < 21; ++i) {
    many.push_back(part(("c" + std::to_string(i)).c_str(), "0"));
  }
  EXPECT_EQ(Said(Pod(many)),
            "21 containers of the pod have a part of a GPU at the same time; a GPU has at most 20");
}

Json WithVariable(const char* name, const Json& value) {
  Json container = Container("a", {{kMemory, "8"}});
  container["env"] = {{{"name", "OTHER"}, {"valueFrom", {{"fieldRef", Json::object()}}}}, value};
  container["env"][1]["name"] = name;
  return container;
}

TEST(Pod, AsksForWholeGpus) {
  const auto whole = Container("a", {{kCount, "2"}});
  const auto pod = ReadPod(Pod(Json::array({whole, Container("b", {{"cpu", "2"}})})).dump());
  ASSERT_TRUE(pod.ok());
  EXPECT_TRUE(pod->whole());
  EXPECT_TRUE(RequestOf(*pod).whole);
  EXPECT_EQ(RequestOf(*pod).gpus, 2U);
  EXPECT_EQ(Said(Pod(Json::array({whole}))), "");
  for (const Json& more : {Container("b", {{kCount, "1"}}), Container("b", {{kMemory, "1"}})}) {
    EXPECT_NE(Said(Pod(Json::array({whole, more}))), "");
  }
  EXPECT_NE(Said(Pod(Json::array({Container("a", {{kCount, "1"}, {kMemory, "1"}})}))), "");
}

TEST(Pod, HasWeightAndPriorityInItsEnvironment) {
  const auto weighted = ReadPod(
      Pod(Json::array({WithVariable("ALIYUN_COM_GPU_SCHD_WEIGHT", {{"value", "4"}})})).dump());
  EXPECT_EQ(weighted->containers[0].weight, 4U);
  EXPECT_FALSE(weighted->containers[0].high_priority);
  const auto high = ReadPod(Pod(Json::array({WithVariable("CGPU_PRIORITY", {{"value", "high"}})}),
                                {{"spec", {{"priorityClassName", "online"}}}})
                                .dump());
  EXPECT_EQ(high->containers[0].weight, 1U);
  EXPECT_TRUE(high->containers[0].high_priority);
  EXPECT_EQ(high->priority_class, "online");
  EXPECT_EQ(
      Said(Pod(Json::array({WithVariable("ALIYUN_COM_GPU_SCHD_WEIGHT", {{"value", "101"}})}))),
      "container a: ALIYUN_COM_GPU_SCHD_WEIGHT \"101\" is out of range; give a whole number from 1 "
      "to 100");
  // A value that is taken from elsewhere may change after the pod was judged.
  EXPECT_NE(Said(Pod(Json::array(
                {WithVariable("ALIYUN_COM_GPU_HIGH_PRIO", {{"valueFrom", Json::object()}})}))),
            "");
  // A container without a part has nothing to weigh.
  Json none = WithVariable("ALIYUN_COM_GPU_SCHD_WEIGHT", {{"value", "x"}});
  none.erase("resources");
  EXPECT_EQ(Said(Pod(Json::array({none}))), "");
  Json both = WithVariable("CGPU_WEIGHT", {{"value", "2"}});
  both["resources"]["limits"][kCompute] = "50";
  EXPECT_EQ(Said(Pod(Json::array({both}))),
            "the pod asks for a weight and for aliyun.com/gpu-core.percentage, and a GPU shares "
            "its time by one of them; leave one of them out");
}

TEST(Pod, HasHighPriorityByItsClass) {
  const auto said = [](const char* priority_class, const PodRules& rules) {
    return Said(Pod(Json::array({WithVariable("ALIYUN_COM_GPU_HIGH_PRIO", {{"value", "1"}})}),
                    {{"spec", {{"priorityClassName", priority_class}}}}),
                rules);
  };
  const PodRules some{{"online", "urgent"}};
  EXPECT_EQ(said("online", some), "");
  EXPECT_EQ(said("urgent", some), "");
  EXPECT_EQ(said("batch", some),
            "container a asks for high priority, which the class batch does not give; set "
            "priorityClassName to one of these: online, urgent");
  EXPECT_EQ(said("", some),
            "container a asks for high priority, which a pod without a priorityClassName does not "
            "give; set priorityClassName to one of these: online, urgent");
  EXPECT_EQ(said("online", {}),
            "container a asks for high priority, which the class online does not give; leave it "
            "out: cgpu-scheduler --high-priority-classes names none");
  EXPECT_NE(said("", PodRules{}), "");
}

TEST(Pod, HasNoMoreContainersThanADecisionHasRoomFor) {
  const auto check = [](std::size_t inits, std::size_t name) {
    Json pod = Pod(Json::array({Container("main", {{kMemory, "1"}})}));
    for (std::size_t i = 0; i < inits; ++i) {
      const std::string text = std::to_string(i + 100) + std::string(name - 3, 'x');
      pod["spec"]["initContainers"].push_back(Container(text.c_str(), {{kMemory, "1"}}));
    }
    return Check(*ReadPod(pod.dump()), {});
  };
  EXPECT_TRUE(check(kMostParts - 1, 30).ok());
  const auto many = check(kMostParts, 30);
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(FormatError(many.error()),
            FormatError({Code::kInvalid, 0,
                         "65 containers of the pod ask for a part of a GPU, its init containers "
                         "counted",
                         "let at most 64 ask"}));
  EXPECT_TRUE(check(kMostParts / 2, 63).ok());
  EXPECT_EQ(check(kMostParts - 1, 63).error().hint,
            "give them shorter names, or let fewer ask: 5120 bytes are the most");
}

}  // namespace
}  // namespace cgpu::kube
