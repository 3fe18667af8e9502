#include "kubelet/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kube/names.h"

namespace cgpu::kubelet {
namespace {

using kube::Mode;

std::vector<kube::NodeGpu> TwoGpus() {
  return {{"GPU-9f8e7d6c-0000-4000-8000-000000000001", 16160, true},
          {"GPU-9f8e7d6c-0000-4000-8000-000000000002", 16160, false}};
}

struct Counts {
  std::size_t memory, compute, count;
  bool operator==(const Counts&) const = default;
};

Counts CountsOf(Mode mode, bool healthy_alone) {
  const Resources all = ResourcesOf(TwoGpus(), mode);
  EXPECT_EQ(all.size(), 3U);
  const auto count = [&](const char* name) {
    const auto& devices = all.at(name);
    return static_cast<std::size_t>(
        std::count_if(devices.begin(), devices.end(),
                      [&](const Device& one) { return one.healthy || !healthy_alone; }));
  };
  return {count(kube::kMemory), count(kube::kCompute), count(kube::kCount)};
}

TEST(Devices, AreThoseOfTheMode) {
  EXPECT_EQ(CountsOf(Mode::kCoreMem, false), (Counts{30, 200, 2}));
  EXPECT_EQ(CountsOf(Mode::kCgpu, false), (Counts{30, 0, 2}));
  EXPECT_EQ(CountsOf(Mode::kShare, false), (Counts{30, 0, 0}));
  EXPECT_EQ(CountsOf(Mode::kNone, false), (Counts{0, 0, 0}));
}

TEST(Devices, AreUnhealthyWithTheirGpu) {
  EXPECT_EQ(CountsOf(Mode::kCoreMem, true), (Counts{15, 100, 1}));
}

TEST(Devices, OfAnExclusiveGpuAreTheGpu) {
  for (const Mode mode : {Mode::kCoreMem, Mode::kShare}) {
    std::vector<kube::NodeGpu> gpus = TwoGpus();
    gpus[0].exclusive = true;
    const Resources all = ResourcesOf(gpus, mode);
    EXPECT_EQ(all.at(kube::kMemory).size(), 15U);
    EXPECT_EQ(all.at(kube::kCompute).size(), mode == Mode::kShare ? 0U : 100U);
    EXPECT_EQ(all.at(kube::kCount).size(), mode == Mode::kShare ? 1U : 2U);
  }
}

TEST(Devices, HaveNamesThatTheKubeletTakes) {
  for (const auto& [name, devices] : ResourcesOf(TwoGpus(), Mode::kCoreMem)) {
    std::set<std::string> ids;
    for (const Device& device : devices) {
      EXPECT_LE(device.id.size(), 63U);
      EXPECT_TRUE(ids.insert(device.id).second) << device.id;
    }
  }
}

}  // namespace
}  // namespace cgpu::kubelet
