#include "apps/cgpu-device-plugin/announcer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "json/json.h"
#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

// Returns the labels and the annotation that the Kubernetes node is to have.
Json MetadataFor(const std::vector<NodeGpu>& gpus, std::string model) {
  std::replace(model.begin(), model.end(), ' ', '-');
  Json labels{{kGpuCount, std::to_string(gpus.size())}};
  if (!gpus.empty()) {
    labels[kGpuName] = model;
    labels[kGpuMemory] = std::to_string(gpus[0].mib) + "MiB";
  }
  return {{"labels", labels}, {"annotations", {{kGpus, EncodeGpus(gpus)}}}};
}

// Returns true if `object` has all members of `wanted`, as they are there, in its own.
bool HasAll(const Json& object, const Json& wanted) {
  for (const auto& [kind, members] : wanted.items()) {
    for (const auto& [name, value] : members.items()) {
      if (At(At(object, kind.c_str()), name.c_str()) != value) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

void Announcer::SetNode(std::string_view json) {
  const MutexLock lock(mutex_);
  node_ = json;
  Announce();
}

void Announcer::SetHealthy(std::size_t gpu, bool healthy) {
  const MutexLock lock(mutex_);
  gpus_[gpu].healthy = healthy;
  log_(gpus_[gpu].uuid + (healthy ? " answers again" : " does not answer"));
  if (!node_.empty()) {
    Announce();
  }
}

void Announcer::Announce() {
  const Json node = ParseJson(node_);
  const Json& metadata = At(node, "metadata");
  const Mode mode = ModeOf(TextAt(At(metadata, "labels"), kMode));
  for (const std::string& word :
       MarkExclusive(TextAt(At(metadata, "annotations"), kExclusive), gpus_)) {
    log_("the annotation " + std::string(kExclusive) + " names \"" + word + "\", which is no GPU");
  }
  const kubelet::Resources resources = kubelet::ResourcesOf(gpus_, mode);
  if (plugin_) {
    plugin_->Set(resources);
  } else if (auto plugin = kubelet::DevicePlugin::Start(kubelet::kKubeletFolder, resources, log_);
             plugin.ok()) {
    plugin_ = *std::move(plugin);
  } else {
    log_(FormatError(plugin.error()));
  }
  const Json wanted = MetadataFor(gpus_, model_);
  if (HasAll(metadata, wanted)) {
    return;
  }
  const auto done = api_.MergePatch("/api/v1/nodes/" + name_, Json{{"metadata", wanted}}.dump());
  log_(done.ok() ? "announced " + std::to_string(gpus_.size()) + " GPUs"
                 : FormatError(done.error()));
}

}  // namespace cgpu::kube
