// Tells from a Lease of the API server (k8s.io/api/coordination/v1) whether one of the candidates
// leads. Clocks of machines are not compared: a lease counts from when its renewal was seen here.
//
// Thread-safe. Pure: the clock is an argument.
#ifndef CGPU_KUBE_LEASE_H_
#define CGPU_KUBE_LEASE_H_

#include <chrono>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace cgpu::kube {

class LeaseView {
 public:
  using Clock = std::chrono::steady_clock;

  // `identity`: of the candidate. That of a kube-scheduler is its host's name, "_" and a UUID
  // (cmd/kube-scheduler/app/options/options.go); here it ends with the "_".
  explicit LeaseView(std::string identity) : identity_(std::move(identity)) {}

  // Takes the Lease's JSON; what is no lease counts as one that nobody holds.
  void Set(std::string_view json, Clock::time_point now);

  // Returns whether the candidate leads, for certain: two thirds of the lease's time have not gone
  // since it was renewed. Another candidate takes it after the whole time.
  [[nodiscard]] bool Held(Clock::time_point now) const;

 private:
  const std::string identity_;
  mutable Mutex mutex_;
  std::string renewed_ CGPU_GUARDED_BY(mutex_);  // as it is written in the lease
  Clock::time_point until_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_LEASE_H_
