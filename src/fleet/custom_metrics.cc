#include "fleet/custom_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/rfc3339.h"

namespace cgpu::fleet {
namespace {

using Json = nlohmann::json;

struct Metric {
  const char* name;
  double PodFigures::* figure;
};
constexpr std::array kMetrics = {
    Metric{"cgpu_busy", &PodFigures::busy},
    Metric{"cgpu_memory_used", &PodFigures::memory_used},
    Metric{"cgpu_share_used", &PodFigures::share_used},
    Metric{"cgpu_waiting", &PodFigures::waiting},
};

constexpr char kNew[] = "v1beta2";
constexpr char kOldVersion[] = "v1beta1";
constexpr char kAllPods[] = "*";

std::vector<std::string> SplitAtSlashes(std::string_view path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = path.find('/', begin)) != std::string_view::npos;
       begin = end + 1) {
    parts.emplace_back(path.substr(begin, end - begin));
  }
  parts.emplace_back(path.substr(begin));
  return parts;
}

// Lists the metrics, for discovery.
MetricsAnswer Resources(const std::string& version) {
  Json resources = Json::array();
  for (const Metric& metric : kMetrics) {
    resources.push_back({{"name", std::string("pods/") + metric.name},
                         {"singularName", ""},
                         {"namespaced", true},
                         {"kind", "MetricValueList"},
                         {"verbs", {"get"}}});
  }
  return {200, Json{{"kind", "APIResourceList"},
                    {"apiVersion", "v1"},
                    {"groupVersion", "custom.metrics.k8s.io/" + version},
                    {"resources", resources}}
                   .dump()};
}

Json Value(const std::string& version, const std::string& name_space, const std::string& pod,
           const Metric& metric, const Fleet::Figures& figures) {
  const auto seconds = std::max<std::int64_t>(1, std::llround(figures.seconds));
  Json value{{"describedObject",
              {{"kind", "Pod"}, {"apiVersion", "v1"}, {"namespace", name_space}, {"name", pod}}},
             {"timestamp", Rfc3339(static_cast<std::uint64_t>(figures.time))},
             {"value", std::to_string(std::llround(figures.of_pod.*metric.figure * 1000)) + "m"}};
  if (version == kNew) {
    value["metric"] = {{"name", metric.name}, {"selector", nullptr}};
    value["windowSeconds"] = seconds;
  } else {
    value["metricName"] = metric.name;
    value["selector"] = nullptr;
    value["window"] = seconds;
  }
  return value;
}

}  // namespace

MetricsAnswer Refuse(int status, const std::string& reason, const std::string& message) {
  return {status, Json{{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"metadata", Json::object()},
                       {"status", "Failure"},
                       {"message", message},
                       {"reason", reason},
                       {"code", status}}
                      .dump(-1, ' ', false, Json::error_handler_t::replace)};
}

MetricsAnswer CustomMetrics::Answer(const MetricsQuery& query, double now) {
  MetricsAnswer none = Refuse(404, "NotFound", "cgpu has no such metric");
  if (!query.path.starts_with(kCustomMetrics)) {
    return none;
  }
  // VERSION, or VERSION/namespaces/NAMESPACE/pods/NAME/METRIC
  const auto parts =
      SplitAtSlashes(std::string_view(query.path).substr(sizeof(kCustomMetrics) - 1));
  const std::string& version = parts[0];
  if (version != kNew && version != kOldVersion) {
    return none;
  }
  if (parts.size() == 1) {
    return Resources(version);
  }
  if (parts.size() != 6 || parts[1] != "namespaces" || parts[3] != "pods") {
    return none;
  }
  const auto* const metric =
      std::ranges::find_if(kMetrics, [&](const Metric& one) { return one.name == parts[5]; });
  if (metric == kMetrics.end()) {
    return none;
  }
  const auto selector = Selector::Parse(query.label_selector);
  if (!selector.ok() || !query.metric_selector.empty()) {
    return Refuse(400, "BadRequest",
                  selector.ok() ? "cgpu's metrics have no labels" : selector.error().what);
  }
  fleet_.Refresh(now);
  Json items = Json::array();
  for (const PodPlace& pod : pods_.Find(parts[2], *selector)) {
    if (parts[4] != kAllPods && parts[4] != pod.name) {
      continue;
    }
    if (const auto figures = fleet_.Find(pod.node, {parts[2], pod.name})) {
      items.push_back(Value(version, parts[2], pod.name, *metric, *figures));
    }
  }
  if (items.empty() && parts[4] != kAllPods) {
    return Refuse(404, "NotFound", "there is no news of pod " + parts[4] + " yet");
  }
  return {200, Json{{"kind", "MetricValueList"},
                    {"apiVersion", "custom.metrics.k8s.io/" + version},
                    {"metadata", Json::object()},
                    {"items", items}}
                   .dump()};
}

}  // namespace cgpu::fleet
