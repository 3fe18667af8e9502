#include "fleet/pods.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

constexpr char kLabel[] = "app";
constexpr char kExporterLabel[] = "cgpu-node";
constexpr char kPort[] = "metrics";

Labels ReadLabels(const Json& metadata) {
  Labels labels;
  for (const auto& [key, value] : At(metadata, "labels").items()) {
    if (value.is_string()) {
      labels[key] = value.get<std::string>();
    }
  }
  return labels;
}

// Returns where the pod's port of that name is reached; "": nowhere yet.
std::string AddressOf(const Json& pod) {
  const std::string ip = TextAt(At(pod, "status"), "podIP");
  for (const Json& container : At(At(pod, "spec"), "containers")) {
    for (const Json& port : At(container, "ports")) {
      const Json& number = At(port, "containerPort");
      if (!ip.empty() && TextAt(port, "name") == kPort && number.is_number_unsigned()) {
        return (ip.find(':') == std::string::npos ? ip : "[" + ip + "]") + ":" +
               std::to_string(number.get<std::uint16_t>());
      }
    }
  }
  return "";
}

}  // namespace

void Pods::Set(std::string_view json) {
  const Json object = ParseJson(json);
  const Json& metadata = At(object, "metadata");
  const std::string uid = TextAt(metadata, "uid");
  const std::string name_space = TextAt(metadata, "namespace");
  const std::string phase = TextAt(At(object, "status"), "phase");
  Pod pod{{TextAt(metadata, "name"), TextAt(At(object, "spec"), "nodeName")},
          ReadLabels(metadata),
          false,
          !At(metadata, "deletionTimestamp").is_null(),
          ""};
  if (uid.empty() || pod.place.node.empty() || phase == "Succeeded" || phase == "Failed") {
    Remove(uid);
    return;
  }
  const auto label = pod.labels.find(kLabel);
  pod.exports =
      name_space == name_space_ && label != pod.labels.end() && label->second == kExporterLabel;
  if (pod.exports) {
    pod.address = AddressOf(object);
  }
  const MutexLock lock(mutex_);
  places_[uid] = name_space;
  pods_[name_space][uid] = std::move(pod);
}

void Pods::Remove(const std::string& uid) {
  const MutexLock lock(mutex_);
  const auto place = places_.find(uid);
  if (place == places_.end()) {
    return;
  }
  const auto in = pods_.find(place->second);
  in->second.erase(uid);
  if (in->second.empty()) {
    pods_.erase(in);
  }
  places_.erase(place);
}

void Pods::Reset() {
  const MutexLock lock(mutex_);
  places_.clear();
  pods_.clear();
}

std::vector<PodPlace> Pods::Find(const std::string& name_space, const Selector& selector) const {
  std::vector<PodPlace> found;
  const MutexLock lock(mutex_);
  if (const auto in = pods_.find(name_space); in != pods_.end()) {
    for (const auto& [uid, pod] : in->second) {
      if (selector.Selects(pod.labels)) {
        found.push_back(pod.place);
      }
    }
  }
  std::ranges::sort(found, {}, &PodPlace::name);
  return found;
}

std::vector<Exporter> Pods::Exporters() const {
  // Where one pod takes another one's place, the one that stays and can be reached counts.
  std::map<std::string, std::pair<int, std::string>> best;
  const MutexLock lock(mutex_);
  if (const auto in = pods_.find(name_space_); in != pods_.end()) {
    for (const auto& [uid, pod] : in->second) {
      if (pod.exports) {
        const int rank = (pod.address.empty() ? 0 : 2) + (pod.leaves ? 0 : 1);
        auto& one = best[pod.place.node];
        one = std::max(one, std::pair(rank, pod.address));
      }
    }
  }
  std::vector<Exporter> exporters;
  exporters.reserve(best.size());
  for (auto& [node, one] : best) {
    exporters.push_back({node, one.second});
  }
  return exporters;
}

}  // namespace cgpu::fleet
