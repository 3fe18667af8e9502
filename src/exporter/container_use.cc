#include "exporter/container_use.h"

#include <utility>

namespace cgpu::exporter {

UsedSeconds GpuSeconds::Of(const std::string& id) const {
  const auto used = containers.find(id);
  return used == containers.end() ? UsedSeconds{} : used->second;
}

ContainerUse::Owner ContainerUse::OwnerOf(std::uint32_t pid, const Whose& whose) {
  if (auto owner = whose(pid)) {
    known_[pid] = {std::move(*owner), true};
  }
  const auto known = known_.find(pid);
  if (known == known_.end()) {
    return kEnded;
  }
  known->second.used = true;
  return known->second.owner;
}

void ContainerUse::Add(const std::string& uuid, const ByProcess& used, const Whose& whose) {
  GpuSeconds& gpu = gpus_[uuid];
  for (const auto& [pid, seconds] : used) {
    gpu.busy += seconds.busy;
    const Owner owner = OwnerOf(pid, whose);
    if (owner == kUnmanaged) {
      gpu.unmanaged += seconds.busy;
    } else if (owner != kEnded) {
      UsedSeconds& all = gpu.containers[owner];
      all.busy += seconds.busy;
      all.waiting += seconds.waiting;
    }
  }
}

void ContainerUse::Keep(const std::set<std::string>& ids) {
  for (auto& [uuid, gpu] : gpus_) {
    std::erase_if(gpu.containers, [&](const auto& one) { return !ids.contains(one.first); });
  }
  std::erase_if(known_, [&](const auto& one) {
    const Known& known = one.second;
    return known.owner == kUnmanaged ? !known.used : !ids.contains(known.owner);
  });
  for (auto& [pid, known] : known_) {
    known.used = false;
  }
}

}  // namespace cgpu::exporter
