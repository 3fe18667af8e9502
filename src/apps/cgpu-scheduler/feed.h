// Tells the extender what the API server says of nodes and pods, on threads of its own, and others
// what it says of pods. Where
// several schedulers elect one that leads, it begins anew when the one beside it comes to lead: the
// lists that the API server gives then have all that the leader before has bound.
#ifndef CGPU_APPS_CGPU_SCHEDULER_FEED_H_
#define CGPU_APPS_CGPU_SCHEDULER_FEED_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fleet/pods.h"
#include "kube/api.h"
#include "kube/extender.h"
#include "kube/follow.h"
#include "kube/lease.h"

namespace cgpu::kube {

class Feed {
 public:
  using Log = std::function<void(const std::string& sentence)>;

  // `pods`: null where nobody else wants to know. `lease_path`: of the list that has the lease;
  // empty: there is no election. The references outlive this.
  Feed(const Api& api, Extender& extender, fleet::Pods* pods, const std::string& lease_path,
       LeaseView& lease, Log log);
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  ~Feed();

 private:
  class Lists;
  void TakeLease(std::string_view json);

  const Api& api_;
  Extender& extender_;
  fleet::Pods* const pods_;
  LeaseView& lease_;
  const Log log_;
  std::unique_ptr<Lists> lists_;  // of the thread alone, once it runs
  std::optional<FollowThread> follows_lease_;
};

}  // namespace cgpu::kube

#endif  // CGPU_APPS_CGPU_SCHEDULER_FEED_H_
