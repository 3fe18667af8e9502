// Knows what the cgpu-exporters of all nodes say, and who may ask for it by way of the API server.
#ifndef CGPU_APPS_CGPU_SCHEDULER_METRICS_H_
#define CGPU_APPS_CGPU_SCHEDULER_METRICS_H_

#include <functional>
#include <string>

#include "apps/cgpu-scheduler/options.h"
#include "fleet/custom_metrics.h"
#include "fleet/fleet.h"
#include "fleet/front_proxy.h"
#include "fleet/pods.h"
#include "kube/api.h"
#include "kube/follow.h"

namespace cgpu::kube {

// Thread-safe.
class Metrics {
 public:
  // `api` outlives this.
  Metrics(const Options& options, const Api& api,
          const std::function<void(const std::string&)>& log);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics() = default;

  // The pods that metrics are given for. Somebody must tell it of them.
  [[nodiscard]] fleet::Pods& pods() { return pods_; }
  [[nodiscard]] const fleet::FrontProxy& front_proxy() const { return front_proxy_; }

  // Returns what the page shows, as JSON.
  [[nodiscard]] std::string Overview();
  // Answers a request to custom.metrics.k8s.io.
  [[nodiscard]] fleet::MetricsAnswer Answer(const fleet::MetricsQuery& query);

 private:
  const std::string token_file_;
  fleet::Pods pods_;
  fleet::Fleet fleet_;
  fleet::CustomMetrics custom_;
  fleet::FrontProxy front_proxy_;
  const FollowThread follows_front_proxy_;
};

}  // namespace cgpu::kube

#endif  // CGPU_APPS_CGPU_SCHEDULER_METRICS_H_
