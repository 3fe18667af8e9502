// Serves what the API server calls by TLS: the admission webhook, and custom.metrics.k8s.io.
#ifndef CGPU_APPS_CGPU_SCHEDULER_WEBHOOK_H_
#define CGPU_APPS_CGPU_SCHEDULER_WEBHOOK_H_

#include <memory>

#include "apps/cgpu-scheduler/metrics.h"
#include "apps/cgpu-scheduler/options.h"
#include "base/result.h"
#include "kube/extender.h"

namespace cgpu::kube {

// Serves from Open() on, on threads of its own.
class Webhook {
 public:
  // `metrics`: null where there are none. The references outlive this. kUnavailable: cannot listen
  // there. kInvalid: there is no certificate.
  [[nodiscard]] static Result<std::unique_ptr<Webhook>> Open(const Options& options,
                                                             Extender& extender, Metrics* metrics);
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;
  ~Webhook();

 private:
  struct State;
  explicit Webhook(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace cgpu::kube

#endif  // CGPU_APPS_CGPU_SCHEDULER_WEBHOOK_H_
