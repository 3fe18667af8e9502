// Answers the calls of custom.metrics.k8s.io for pods (k8s.io/metrics/pkg/apis/custom_metrics):
// what the controller of HorizontalPodAutoscalers asks. The API server hands them on, once it knows
// who asks and that they may (front_proxy.h).
//
// Thread-safe.
#ifndef CGPU_FLEET_CUSTOM_METRICS_H_
#define CGPU_FLEET_CUSTOM_METRICS_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "fleet/fleet.h"
#include "fleet/pods.h"

namespace cgpu::fleet {

// All paths that are answered begin with this.
inline constexpr char kCustomMetrics[] = "/apis/custom.metrics.k8s.io/";

struct MetricsQuery {
  std::string path;             // decoded
  std::string label_selector;   // of pods
  std::string metric_selector;  // of labels of the metric, which has none
};

struct MetricsAnswer {
  int status = 200;
  std::string json;  // a list, or where the status is none of success, a Status
};

// Returns a Status of Kubernetes' (apimachinery meta/v1/types.go).
[[nodiscard]] MetricsAnswer Refuse(int status, const std::string& reason,
                                   const std::string& message);

class CustomMetrics {
 public:
  // Both outlive this.
  CustomMetrics(const Pods& pods, Fleet& fleet) : pods_(pods), fleet_(fleet) {}

  // `now`: Unix time, in seconds. Waits for the exporters (fleet.h).
  [[nodiscard]] MetricsAnswer Answer(const MetricsQuery& query, double now);

 private:
  const Pods& pods_;
  Fleet& fleet_;
};

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_CUSTOM_METRICS_H_
