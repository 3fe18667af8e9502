#include "kube/hami.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kLargest = 15;

Json HamiPod(const std::vector<Json>& limits) {
  Json pod{{"metadata", {{"name", "p"}}}, {"spec", {{"containers", Json::array()}}}};
  for (const Json& one : limits) {
    const std::string name(1, static_cast<char>('a' + pod["spec"]["containers"].size()));
    pod["spec"]["containers"].push_back({{"name", name}, {"resources", {{"limits", one}}}});
  }
  return pod;
}

std::string HamiRefusal(const Json& pod, std::uint32_t largest = kLargest) {
  const auto ours = FromHamiNames(pod.dump(), largest);
  return ours.ok() ? "" : ours.error().what + "; " + ours.error().hint;
}

Json Ours(const Json& pod, std::uint32_t largest = kLargest) {
  const auto ours = FromHamiNames(pod.dump(), largest);
  EXPECT_TRUE(ours.ok()) << HamiRefusal(pod, largest);
  return ours.ok() ? Json::parse(*ours) : Json();
}

struct Case {
  Json theirs;
  Json ours;
  const char* count;  // label; "": none
};

TEST(Hami, IsSaidInOurNames) {
  const Case cases[] = {
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3072"}}, {{kMemory, "3"}}, ""},
      {{{"nvidia.com/gpumem", 3072}}, {{kMemory, "3"}}, ""},
      {{{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem", "3072"}, {"nvidia.com/gpucores", "30"}},
       {{kMemory, "6"}, {kCompute, "60"}},
       "2"},
      {{{"nvidia.com/gpu", "1"}}, {{kMemory, "15"}}, ""},
      {{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", "100"}},
       {{kMemory, "15"}, {kCompute, "100"}},
       ""},
      {{{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem-percentage", "40"}}, {{kMemory, "12"}}, "2"},
      {{{"nvidia.com/gpumem", "2048"}, {"nvidia.com/gpumem-percentage", "40"}},
       {{kMemory, "2"}},
       ""},
      {{{"nvidia.com/gpumem", "2048"}, {"cpu", "2"}}, {{kMemory, "2"}, {"cpu", "2"}}, ""},
  };
  for (const Case& one : cases) {
    const Json ours = Ours(HamiPod({one.theirs}));
    EXPECT_EQ(ours["spec"]["containers"][0]["resources"]["limits"], one.ours) << one.theirs;
    const Json labels = ours["metadata"].value("labels", Json::object());
    EXPECT_EQ(labels.value(kCount, ""), one.count) << one.theirs;
  }
}

TEST(Hami, LeavesOtherPodsAlone) {
  for (const Json& pod : {HamiPod({{{kMemory, "8"}}}), HamiPod({{{"cpu", "1"}}}), HamiPod({}),
                          HamiPod({{{"nvidia.com/gpu", "0"}}}), Json::array(), Json{{"spec", 1}}}) {
    EXPECT_EQ(Ours(pod), pod);
  }
}

TEST(Hami, IsRefusedWithTheNearestThatCanBe) {
  const auto said = [](const Json& limits) { return HamiRefusal(HamiPod({limits})); };
  EXPECT_EQ(said({{"nvidia.com/gpumem", "3000"}}),
            "nvidia.com/gpumem of container a is 3000 MiB, which is no whole number of GiB; ask "
            "for 3072");
  EXPECT_EQ(said({{"nvidia.com/gpumem", "1100"}}),
            "nvidia.com/gpumem of container a is 1100 MiB, which is no whole number of GiB; ask "
            "for 1024");
  EXPECT_EQ(said({{"nvidia.com/gpumem", "1"}}),
            "nvidia.com/gpumem of container a is 1 MiB, which is no whole number of GiB; ask for "
            "1024");
  EXPECT_EQ(said({{"nvidia.com/gpumem-percentage", "50"}}),
            "nvidia.com/gpumem-percentage of container a is 50 %, which is no whole number of the "
            "15 GiB of the largest GPU; ask for nvidia.com/gpumem of 8192");
  EXPECT_EQ(said({{"nvidia.com/gpumem-percentage", "120"}}),
            "nvidia.com/gpumem-percentage of container a is 120 %; ask for at most 100");
  EXPECT_EQ(said({{"nvidia.com/gpumem", "1024"}, {"nvidia.com/gpucores", "33"}}),
            "nvidia.com/gpucores of container a is 33, which is no multiple of 5; ask for 35");
  EXPECT_EQ(said({{"nvidia.com/gpumem", "1024"}, {"nvidia.com/gpucores", "101"}}),
            "nvidia.com/gpucores of container a is 101, more than a GPU has; ask for at most 100");
  EXPECT_EQ(said({{"nvidia.com/gpu", "x"}}),
            "nvidia.com/gpu of container a is \"x\", which is no whole number; write a whole "
            "number, for example \"8\"");
  EXPECT_EQ(HamiRefusal(HamiPod({{{"nvidia.com/gpu", "1"}}}), 0),
            "nvidia.com/gpumem-percentage of container a is 100 % of a GPU, and no GPU is known "
            "yet; ask for nvidia.com/gpumem");
}

TEST(Hami, IsRefusedWhereItHasNoEqual) {
  EXPECT_EQ(HamiRefusal(HamiPod({{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "1024"}},
                                 {{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem", "1024"}}})),
            "nvidia.com/gpu of container b is 2, and that of container a is 1; ask for 1 in each: "
            "they share the pod's GPUs");
  EXPECT_EQ(HamiRefusal(HamiPod({{{"nvidia.com/gpumem", "1024"}, {kMemory, "1"}}})),
            "container a asks for parts of GPUs by names of aliyun.com and of nvidia.com; use one "
            "of them");
  EXPECT_EQ(HamiRefusal(HamiPod({{{"nvidia.com/gpumem", "1024"}, {"nvidia.com/priority", "1"}}})),
            "nvidia.com/priority of container a is a priority that only HAMi knows; leave it out; "
            "a container of high priority sets ALIYUN_COM_GPU_HIGH_PRIO");
  Json pod = HamiPod({{{"nvidia.com/gpumem", "1024"}}});
  pod["metadata"]["annotations"]["nvidia.com/use-gputype"] = "A100";
  EXPECT_EQ(HamiRefusal(pod),
            "the annotation nvidia.com/use-gputype has no equal in cgpu-scheduler; leave it out; "
            "nodes have the label aliyun.accelerator/nvidia_name for a nodeSelector");
  pod["metadata"] = {{"labels", {{kCount, "3"}}}};
  EXPECT_EQ(HamiRefusal(pod),
            "the label aliyun.com/gpu-count is 3, and nvidia.com/gpu is 1; leave the label out");
}

}  // namespace
}  // namespace cgpu::kube
