#include "exporter/overview.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/rfc3339.h"
#include "exporter/container_use.h"
#include "exporter/label.h"
#include "governor/policy.h"

namespace cgpu::exporter {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json OrNull(bool known, Value value) {
  return known ? Json(value) : Json();
}

template <typename Counts>
std::uint64_t Sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

Json MemoryJson(const GpuSample& gpu) {
  const bool told = gpu.memory.has_value();
  const GpuMemory memory = gpu.memory.value_or(GpuMemory{});
  return {{"total", gpu.total_bytes},
          {"granted", gpu.granted_bytes},
          {"used", OrNull(told, memory.used)},
          {"free", OrNull(told, memory.free)},
          {"unmanaged", OrNull(told, memory.unmanaged)}};
}

Json PolicyJson(std::optional<int> policy) {
  return policy ? Json(governor::NameOf(static_cast<governor::Policy>(*policy))) : Json();
}

Json GpuJson(const GpuSample& gpu) {
  return {{"uuid", SafeLabel(gpu.uuid)},
          {"index", gpu.index},
          {"model", SafeLabel(gpu.model)},
          {"pci", SafeLabel(gpu.pci)},
          {"healthy", gpu.healthy},
          {"policy", PolicyJson(gpu.policy)},
          {"slices", gpu.slices},
          {"slices_max", gpu.most_slices},
          {"share_granted", gpu.granted_share},
          {"memory", MemoryJson(gpu)},
          {"busy_seconds", gpu.seconds.busy},
          {"counted_seconds", gpu.seconds.counted},
          {"unmanaged_busy_seconds", gpu.seconds.unmanaged},
          {"unmanaged_processes", gpu.memory ? Json(gpu.memory->unmanaged_processes) : Json()}};
}

Json PlaceJson(const Snapshot& host, const ContainerSample& container, const GpuStatus& slice) {
  const auto share = container.shares.find(slice.uuid);
  const bool shared = share != container.shares.end();
  const UsedSeconds seconds = host.SecondsOf(container.status.id, slice.uuid);
  const bool answers = container.answers;
  return {{"uuid", SafeLabel(slice.uuid)},
          {"limit", slice.limit_bytes},
          {"used", OrNull(answers, slice.used_bytes)},
          {"peak", OrNull(answers, slice.peak_bytes)},
          {"refused", OrNull(answers, slice.denied)},
          {"share", shared ? Json(share->second.promised) : Json()},
          {"share_max", shared ? Json(share->second.most) : Json()},
          {"busy_seconds", seconds.busy},
          {"waiting_seconds", seconds.waiting},
          {"throttled_seconds",
           OrNull(answers, static_cast<double>(slice.throttled_ns) / kNsPerSecond)},
          {"weight", container.status.compute.weight.value_or(1)},
          {"high_priority", container.status.compute.high_priority}};
}

Json ContainerJson(const Snapshot& host, const ContainerSample& container) {
  const ContainerStatus& status = container.status;
  const auto& counters = status.counters;
  auto places = Json::array();
  for (const GpuStatus& slice : status.gpus) {
    places.push_back(PlaceJson(host, container, slice));
  }
  return {{"id", SafeLabel(status.id)},
          {"name", SafeLabel(status.name)},
          {"namespace", SafeLabel(container.name_space)},
          {"pod", SafeLabel(container.pod_name)},
          {"container", SafeLabel(status.container)},
          {"origin", SafeLabel(status.origin)},
          {"mode", status.isolated ? "cgpu" : "share"},
          {"answers", container.answers},
          {"started", status.since},
          {"calls", counters ? Json(Sum(counters->calls)) : Json()},
          {"refused_calls", counters ? Json(Sum(counters->refused)) : Json()},
          {"gpus", std::move(places)}};
}

Json EventJson(const Event& event) {
  Json json{{"time", Rfc3339Ms(event.time_ms)},
            {"kind", SafeLabel(event.kind)},
            {"sentence", SentenceOf(event)}};
  for (const auto& [key, value] : event.fields) {
    const auto* const text = std::get_if<std::string>(&value);
    json[SafeLabel(key)] =
        text != nullptr ? Json(SafeLabel(*text)) : Json(std::get<std::uint64_t>(value));
  }
  return json;
}

}  // namespace

std::string RenderOverview(const Snapshot& host, const std::vector<Event>& events, double time) {
  auto gpus = Json::array();
  for (const GpuSample& gpu : host.gpus) {
    gpus.push_back(GpuJson(gpu));
  }
  auto containers = Json::array();
  for (const ContainerSample& container : host.containers) {
    containers.push_back(ContainerJson(host, container));
  }
  auto told = Json::array();
  for (const Event& event : events) {
    told.push_back(EventJson(event));
  }
  Json node{{"name", SafeLabel(host.host_name)},
            {"error", nullptr},
            {"version", SafeLabel(host.version)},
            {"driver", SafeLabel(host.driver)},
            {"time", time},
            {"gpus", std::move(gpus)},
            {"containers", std::move(containers)},
            {"events", std::move(told)}};
  auto nodes = Json::array();
  nodes.push_back(std::move(node));
  return Json{{"kind", "node"}, {"time", time}, {"nodes", std::move(nodes)}}.dump();
}

}  // namespace cgpu::exporter
