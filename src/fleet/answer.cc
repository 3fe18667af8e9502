#include "fleet/answer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDeepest = 16;

// A member that readers of an overview count on (exporter/overview.h). `kinds` of its value: t
// text, n number, b true or false, o object, a array, 0 null.
struct Member {
  const char* name;
  std::string_view kinds;
};

constexpr Member kNode[] = {{"name", "t"}, {"error", "t0"}, {"version", "t"},    {"driver", "t"},
                            {"time", "n"}, {"gpus", "a"},   {"containers", "a"}, {"events", "a"}};
constexpr Member kGpu[] = {{"uuid", "t"},
                           {"index", "n"},
                           {"model", "t"},
                           {"pci", "t"},
                           {"healthy", "b"},
                           {"policy", "t0"},
                           {"slices", "n"},
                           {"slices_max", "n"},
                           {"share_granted", "n"},
                           {"memory", "o"},
                           {"busy_seconds", "n"},
                           {"counted_seconds", "n"},
                           {"unmanaged_busy_seconds", "n"},
                           {"unmanaged_processes", "n0"}};
constexpr Member kMemory[] = {
    {"total", "n"}, {"granted", "n"}, {"used", "n0"}, {"free", "n0"}, {"unmanaged", "n0"}};
constexpr Member kContainer[] = {{"id", "t"},     {"name", "t"},           {"namespace", "t"},
                                 {"pod", "t"},    {"container", "t"},      {"origin", "t"},
                                 {"mode", "t"},   {"answers", "b"},        {"started", "n"},
                                 {"calls", "n0"}, {"refused_calls", "n0"}, {"gpus", "a"}};
constexpr Member kPlace[] = {{"uuid", "t"},
                             {"limit", "n"},
                             {"used", "n0"},
                             {"peak", "n0"},
                             {"refused", "n0"},
                             {"share", "n0"},
                             {"share_max", "n0"},
                             {"busy_seconds", "n"},
                             {"waiting_seconds", "n"},
                             {"throttled_seconds", "n0"},
                             {"weight", "n"},
                             {"high_priority", "b"}};
constexpr Member kEvent[] = {{"time", "t"}, {"kind", "t"}, {"sentence", "t"}};

char KindOf(const Json& value) {
  return value.is_string()    ? 't'
         : value.is_number()  ? 'n'
         : value.is_boolean() ? 'b'
         : value.is_object()  ? 'o'
         : value.is_array()   ? 'a'
         : value.is_null()    ? '0'
                              : '-';
}

template <std::size_t count>
bool Has(const Json& object, const Member (&members)[count]) {
  return std::ranges::all_of(members, [&](const Member& member) {
    const auto found = object.is_object() ? object.find(member.name) : object.end();
    return found != object.end() && member.kinds.find(KindOf(*found)) != std::string_view::npos;
  });
}

bool IsContainer(const Json& json) {
  return Has(json, kContainer) &&
         std::ranges::all_of(json["gpus"], [](const Json& place) { return Has(place, kPlace); });
}

bool IsNode(const Json& json) {
  return Has(json, kNode) && std::ranges::all_of(json["containers"], IsContainer) &&
         std::ranges::all_of(
             json["gpus"],
             [](const Json& gpu) { return Has(gpu, kGpu) && Has(gpu["memory"], kMemory); }) &&
         std::ranges::all_of(json["events"], [](const Json& event) { return Has(event, kEvent); });
}

// Returns a number that is not negative; 0: the member is none.
double NumberAt(const Json& object, const char* name) {
  const Json& value = At(object, name);
  const double number = value.is_number() ? value.get<double>() : 0;
  return std::isfinite(number) ? std::max(number, 0.0) : 0;
}

ContainerFigures ReadContainer(const Json& json) {
  ContainerFigures container{{TextAt(json, "namespace"), TextAt(json, "pod")}, {}};
  for (const Json& gpu : At(json, "gpus")) {
    container.gpus[TextAt(gpu, "uuid")] = {NumberAt(gpu, "limit"), NumberAt(gpu, "used"),
                                           NumberAt(gpu, "share"), NumberAt(gpu, "busy_seconds"),
                                           NumberAt(gpu, "waiting_seconds")};
  }
  return container;
}

// Returns by how much a count of seconds rose. One that fell began again.
double Rise(double before, double now) {
  return now >= before ? now - before : now;
}

// Returns the seconds that the counts of a GPU are about. They come late, so these are not the
// seconds between the answers; those stand where nothing was counted.
double CountedSeconds(const std::string& uuid, const NodeAnswer& before, const NodeAnswer& now) {
  const auto older = before.counted.find(uuid);
  const auto newer = now.counted.find(uuid);
  const double rise = newer == now.counted.end()
                          ? 0
                          : Rise(older == before.counted.end() ? 0 : older->second, newer->second);
  return rise > 0 ? rise : now.time - before.time;
}

// Sums over the GPUs of a pod's containers.
struct Sums {
  double busy = 0;
  double waiting = 0;
  double promised = 0;
  double used = 0;
  double limit = 0;
  double gpus = 0;
};

}  // namespace

Result<NodeAnswer> ReadAnswer(std::string_view text, const std::string& node) {
  const Error wrong{Code::kInvalid, 0, "the answer is no overview of a node", {}};
  if (NestsDeeper(text, kDeepest)) {
    return wrong;
  }
  Json json = ParseJson(text);
  if (!At(json, "nodes").is_array() || json["nodes"].size() != 1) {
    return wrong;
  }
  Json& object = json["nodes"][0];
  if (!IsNode(object)) {
    return wrong;
  }
  NodeAnswer answer;
  answer.time = NumberAt(object, "time");
  for (const Json& gpu : object["gpus"]) {
    answer.counted[TextAt(gpu, "uuid")] = NumberAt(gpu, "counted_seconds");
  }
  for (const Json& container : object["containers"]) {
    if (!TextAt(container, "pod").empty()) {
      answer.containers[TextAt(container, "id")] = ReadContainer(container);
    }
  }
  object["name"] = node;
  answer.json = object.dump();
  return answer;
}

std::string SilentNode(const std::string& node, const std::string& why) {
  const Json none = Json::array();
  return Json{{"name", node}, {"error", why}, {"version", ""},      {"driver", ""},
              {"time", 0},    {"gpus", none}, {"containers", none}, {"events", none}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::map<PodName, PodFigures> FiguresBetween(const NodeAnswer& before, const NodeAnswer& now) {
  std::map<PodName, PodFigures> figures;
  if (now.time <= before.time) {
    return figures;
  }
  std::map<PodName, Sums> pods;
  for (const auto& [id, container] : now.containers) {
    const auto older = before.containers.find(id);
    Sums& sums = pods[container.pod];
    for (const auto& [uuid, gpu] : container.gpus) {
      GpuFigures then;
      if (older != before.containers.end() && older->second.gpus.contains(uuid)) {
        then = older->second.gpus.at(uuid);
      }
      const double counted = CountedSeconds(uuid, before, now);
      sums.busy += std::min(Rise(then.busy, gpu.busy) / counted, 1.0);
      sums.waiting += std::min(Rise(then.waiting, gpu.waiting) / counted, 1.0);
      sums.promised += gpu.share > 0 ? std::min(gpu.share, 1.0) : 1.0;
      sums.used += gpu.used;
      sums.limit += gpu.limit;
      sums.gpus += 1;
    }
  }
  for (const auto& [pod, sums] : pods) {
    if (sums.gpus > 0) {
      figures[pod] = {sums.busy / sums.promised, sums.busy, sums.waiting / sums.gpus,
                      sums.limit > 0 ? std::min(sums.used / sums.limit, 1.0) : 0};
    }
  }
  return figures;
}

}  // namespace cgpu::fleet
