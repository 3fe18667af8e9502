#include "kubelet/devices.h"

#include <cstdint>

#include "kube/names.h"
#include "placement/model.h"

namespace cgpu::kubelet {
namespace {

void Add(std::vector<Device>& devices, const kube::NodeGpu& gpu, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    devices.push_back({gpu.uuid + "-" + std::to_string(i), gpu.healthy});
  }
}

}  // namespace

Resources ResourcesOf(const std::vector<kube::NodeGpu>& gpus, kube::Mode mode) {
  Resources resources{{kube::kMemory, {}}, {kube::kCompute, {}}, {kube::kCount, {}}};
  if (mode == kube::Mode::kNone) {
    return resources;
  }
  for (const kube::NodeGpu& gpu : gpus) {
    if (mode != kube::Mode::kShare || gpu.exclusive) {
      resources[kube::kCount].push_back({gpu.uuid, gpu.healthy});
    }
    if (gpu.exclusive) {
      continue;
    }
    Add(resources[kube::kMemory], gpu, gpu.units());
    if (mode == kube::Mode::kCoreMem) {
      Add(resources[kube::kCompute], gpu, placement::kWholeCompute);
    }
  }
  return resources;
}

}  // namespace cgpu::kubelet
