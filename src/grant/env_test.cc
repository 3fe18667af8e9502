#include "grant/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "grant/grant.h"

namespace cgpu {
namespace {

using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;
using Mode = EnvRequest::Mode;

TEST(EnvGrant, PlainContainersAreLeftAlone) {
  EXPECT_EQ((*EnvGrant({})).mode, Mode::kUnmanaged);
  EXPECT_EQ((*EnvGrant({{"PATH", "/bin"}, {"ALIYUN_COM_GPU_MEM_DEV", "15"}})).mode,
            Mode::kUnmanaged);
  EXPECT_EQ((*EnvGrant({{"CGPU_DISABLE", "true"}, {"CGPU_MEM", "junk"}})).mode, Mode::kDisabled);
  EXPECT_EQ((*EnvGrant({{"CGPU_DISABLE", "1"}})).mode, Mode::kDisabled);
  EXPECT_EQ((*EnvGrant({{"CGPU_DISABLE", "0"}, {"CGPU_MEM", "1G"}})).mode, Mode::kManaged);
}

TEST(EnvGrant, OnlyItsOwnVariablesAreTakenFromAnEnvironment) {
  const std::vector<std::string> own = {"ALIYUN_COM_GPU_MEM_CONTAINER=4",
                                        "ALIYUN_COM_GPU_MEM_DEV=15",
                                        "CGPU_MEM=25%",
                                        "ALIYUN_COM_GPU_VISIBLE_DEVICES=0",
                                        "NVIDIA_VISIBLE_DEVICES=",
                                        "CGPU_DEVICES=a=b",
                                        "CGPU_COMPUTE=1",
                                        "CGPU_COMPUTE_MAX=2",
                                        "CGPU_WEIGHT=3",
                                        "CGPU_PRIORITY=high",
                                        "ALIYUN_COM_GPU_SCHD_WEIGHT=3",
                                        "ALIYUN_COM_GPU_HIGH_PRIO=1",
                                        "CGPU_DISABLE=0"};
  std::vector<std::string> all = own;
  all.insert(all.begin(), {"PATH=/bin", "CGPU_MEM", "CGPU_SEED=1", "NVIDIA_REQUIRE_CUDA=cuda>=12"});
  EXPECT_EQ(GrantVariables(all), own);
}

TEST(EnvGrant, TakesAlibabaCloudsNames) {
  const auto request = EnvGrant({{"ALIYUN_COM_GPU_MEM_CONTAINER", "4"},
                                 {"ALIYUN_COM_GPU_MEM_DEV", "15"},
                                 {"ALIYUN_COM_GPU_MEM_UNIT", "GiB"},
                                 {"ALIYUN_COM_GPU_VISIBLE_DEVICES", "0,1"},
                                 {"ALIYUN_COM_GPU_SCHD_WEIGHT", "3"},
                                 {"ALIYUN_COM_GPU_HIGH_PRIO", "1"}});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().mode, Mode::kManaged);
  ASSERT_EQ(request.value().resources.memory.size(), 1U);
  Gpu gpu;
  gpu.memory_bytes = std::uint64_t{16160} << 20;
  EXPECT_EQ(*LimitOnGpu(request.value().resources.memory[0], gpu, 2), std::uint64_t{4309} << 20);
  EXPECT_THAT(request.value().resources.gpus[0].devices, testing::ElementsAre("0", "1"));
  EXPECT_EQ(request->compute.weight, 3U);
  EXPECT_TRUE(request->compute.high_priority);
}

TEST(EnvGrant, TakesItsOwnNames) {
  const auto request = EnvGrant({{"CGPU_MEM", "4096MiB"},
                                 {"CGPU_DEVICES", "GPU-8a56"},
                                 {"CGPU_COMPUTE", "30"},
                                 {"CGPU_COMPUTE_MAX", "60"},
                                 {"CGPU_WEIGHT", "2"},
                                 {"CGPU_PRIORITY", "high"}});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().resources.memory[0].value, 4096U);
  EXPECT_THAT(request.value().resources.gpus[0].devices, testing::ElementsAre("GPU-8a56"));
  EXPECT_EQ(request->compute.percent, 30U);
  EXPECT_EQ(request->compute.max_percent, 60U);
  EXPECT_EQ(request->compute.weight, 2U);
  EXPECT_TRUE(request->compute.high_priority);
}

TEST(EnvGrant, TakesNvidiasListOfGpus) {
  for (const char* all : {"all", "void", "none", "", "nvidia.com/gpu=all"}) {
    const auto request = EnvGrant({{"CGPU_MEM", "1G"}, {"NVIDIA_VISIBLE_DEVICES", all}});
    ASSERT_TRUE(request.ok()) << all;
    EXPECT_TRUE(request->resources.gpus.empty()) << all;
    EXPECT_FALSE(request->resources.whole) << all;
  }
  for (const char* two : {"1,2", "nvidia.com/gpu=1,runtime.nvidia.com/gpu=2"}) {
    const auto request = EnvGrant({{"CGPU_MEM", "1G"}, {"NVIDIA_VISIBLE_DEVICES", two}});
    ASSERT_TRUE(request.ok()) << request.error().what;
    ASSERT_EQ(request->resources.gpus.size(), 1U);
    EXPECT_THAT(request->resources.gpus[0].devices, testing::ElementsAre("1", "2"));
    EXPECT_FALSE(request->resources.whole);
  }
  EXPECT_EQ((*EnvGrant({{"NVIDIA_VISIBLE_DEVICES", "0"}})).mode, Mode::kUnmanaged);
}

TEST(EnvGrant, GpusThatOnlyNvidiasVariableNamesAreWhole) {
  for (const char* name : {"ALIYUN_COM_GPU_VISIBLE_DEVICES", "CGPU_DEVICES"}) {
    const auto request =
        EnvGrant({{"CGPU_MEM", "1G"}, {name, "2"}, {"NVIDIA_VISIBLE_DEVICES", "0,1,2"}});
    ASSERT_TRUE(request.ok()) << request.error().what;
    EXPECT_THAT(request->resources.gpus[0].devices, testing::ElementsAre("2"));
    ASSERT_TRUE(request->resources.whole);
    EXPECT_THAT(request->resources.whole->devices, testing::ElementsAre("0", "1", "2"));
    EXPECT_FALSE(EnvGrant({{"CGPU_MEM", "1G"}, {name, "2"}, {"NVIDIA_VISIBLE_DEVICES", "all"}})
                     ->resources.whole)
        << "images say so, not their users";
  }
}

TEST(EnvGrant, KeepsBothFamiliesSoThatTheyCanBeCompared) {
  const auto request = EnvGrant({{"ALIYUN_COM_GPU_MEM_CONTAINER", "4"},
                                 {"ALIYUN_COM_GPU_MEM_DEV", "15"},
                                 {"CGPU_MEM", "5000"},
                                 {"ALIYUN_COM_GPU_SCHD_WEIGHT", "2"},
                                 {"CGPU_WEIGHT", "2"}});
  ASSERT_TRUE(request.ok());
  Gpu gpu;
  gpu.memory_bytes = std::uint64_t{16160} << 20;
  EXPECT_EQ(MakeGrant(request.value().resources, {gpu}, {{}}).error().code, Code::kConflict);
}

TEST(EnvGrant, RefusesWrongValuesAndNamesTheVariable) {
  struct Case {
    Environment environment;
    const char* says;
  };
  const Case cases[] = {
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "16"}, {"ALIYUN_COM_GPU_MEM_DEV", "15"}},
       "ALIYUN_COM_GPU_MEM_CONTAINER=16 is more than ALIYUN_COM_GPU_MEM_DEV=15"},
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "4"}}, "without ALIYUN_COM_GPU_MEM_DEV"},
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "0"}, {"ALIYUN_COM_GPU_MEM_DEV", "15"}}, "is zero"},
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "-4"}, {"ALIYUN_COM_GPU_MEM_DEV", "15"}}, "is negative"},
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "1.5"}, {"ALIYUN_COM_GPU_MEM_DEV", "15"}}, "fraction"},
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "4"}, {"ALIYUN_COM_GPU_MEM_DEV", "x"}},
       "ALIYUN_COM_GPU_MEM_DEV \"x\" is not a number"},
      {{{"ALIYUN_COM_GPU_MEM_CONTAINER", "4"}, {"ALIYUN_COM_GPU_MEM_DEV", "99999999999"}},
       "out of range"},
      {{{"CGPU_MEM", "4PB"}}, "CGPU_MEM: "},
      {{{"CGPU_DEVICES", "0,,1"}}, "CGPU_DEVICES: "},
      {{{"CGPU_MEM", "1G"}, {"NVIDIA_VISIBLE_DEVICES", "0:1"}}, "NVIDIA_VISIBLE_DEVICES: "},
      {{{"CGPU_COMPUTE", "101"}}, "CGPU_COMPUTE \"101\" is out of range"},
      {{{"CGPU_COMPUTE", "60"}, {"CGPU_COMPUTE_MAX", "30"}}, "less than CGPU_COMPUTE"},
      {{{"CGPU_WEIGHT", "101"}}, "CGPU_WEIGHT"},
      {{{"CGPU_MEM", "1G"}, {"CGPU_WEIGHT", "2"}, {"ALIYUN_COM_GPU_SCHD_WEIGHT", "3"}},
       "ALIYUN_COM_GPU_SCHD_WEIGHT and CGPU_WEIGHT differ"},
      {{{"CGPU_PRIORITY", "urgent"}}, "neither high nor normal"},
      {{{"CGPU_PRIORITY", "normal"}, {"ALIYUN_COM_GPU_HIGH_PRIO", "1"}}, "differ"},
      {{{"CGPU_MEM", "1G"}, {"ALIYUN_COM_GPU_HIGH_PRIO", "maybe"}}, "neither true nor false"},
      {{{"CGPU_DISABLE", "yes please"}}, "CGPU_DISABLE"},
  };
  for (const Case& c : cases) {
    const auto request = EnvGrant(c.environment);
    ASSERT_FALSE(request.ok()) << c.says;
    EXPECT_THAT(request.error().what, HasSubstr(c.says));
  }
}

TEST(EnvGrant, RefusesNamesThatAreNearlyItsOwn) {
  for (const auto& [wrong, right] : {std::pair{"CGPU_COMPUT", "CGPU_COMPUTE"},
                                     {"CGPU_MEMORY", "CGPU_MEM"},
                                     {"CGPU_MEMO", "CGPU_MEM"},
                                     {"CGPU_DEVICE", "CGPU_DEVICES"},
                                     {"CGPU_GPUS", "CGPU_DEVICES"},
                                     {"CGPU_WIEGHT", "CGPU_WEIGHT"},
                                     {"CGPU_DISABLED", "CGPU_DISABLE"}}) {
    const std::string variable = std::string(wrong) + "=1";
    ASSERT_EQ(GrantVariables({variable}).size(), 1U) << wrong;
    const auto request = EnvGrant(VariablesOf({variable}));
    ASSERT_FALSE(request.ok()) << wrong;
    EXPECT_EQ(request.error().hint, "did you mean " + std::string(right) + "?");
  }
  // Kubernetes makes such names of a service "cgpu"; others may have the rest.
  for (const char* other : {"CGPU_SERVICE_HOST", "CGPU_PORT", "CGPU_PORT_443_TCP_PROTO",
                            "CGPU_SCHEDULER_SERVICE_PORT", "CGPU_BIN", "CGPU_MIG", "CGPU_"}) {
    EXPECT_TRUE(GrantVariables({std::string(other) + "=1"}).empty()) << other;
    EXPECT_EQ((*EnvGrant({{other, "1"}})).mode, Mode::kUnmanaged) << other;
  }
}

}  // namespace
}  // namespace cgpu
