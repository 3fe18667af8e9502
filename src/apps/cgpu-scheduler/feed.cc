#include "apps/cgpu-scheduler/feed.h"

#include <atomic>
#include <utility>

namespace cgpu::kube {

// Follows the nodes and the pods from its construction to its destruction.
class Feed::Lists {
 public:
  Lists(const Api& api, Extender& extender, fleet::Pods* pods, const Log& log)
      : extender_(extender),
        log_(log),
        follows_nodes_(api, "/api/v1/nodes",
                       {[this](std::string_view json) { extender_.SetNode(json); },
                        [this](const std::string& name) { extender_.RemoveNode(name); },
                        [this] { Complete(nodes_seen_); }, log_, false}),
        follows_pods_(api, "/api/v1/pods",
                      {[this, pods](std::string_view json) {
                         extender_.SetPod(json);
                         if (pods != nullptr) {
                           pods->Set(json);
                         }
                       },
                       [this, pods](const std::string& uid) {
                         extender_.RemovePod(uid);
                         if (pods != nullptr) {
                           pods->Remove(uid);
                         }
                       },
                       [this] { Complete(pods_seen_); }, log_, true}) {}
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;
  ~Lists() = default;

 private:
  void Complete(std::atomic<bool>& seen) {
    const bool again = seen.exchange(true);
    if (!again && nodes_seen_ && pods_seen_) {
      extender_.SetComplete();
      log_("knows the cluster");
    }
  }

  Extender& extender_;
  const Log& log_;
  std::atomic<bool> nodes_seen_{false};
  std::atomic<bool> pods_seen_{false};
  const FollowThread follows_nodes_;
  const FollowThread follows_pods_;
};

Feed::Feed(const Api& api, Extender& extender, fleet::Pods* pods, const std::string& lease_path,
           LeaseView& lease, Log log)
    : api_(api), extender_(extender), pods_(pods), lease_(lease), log_(std::move(log)) {
  lists_ = std::make_unique<Lists>(api_, extender_, pods_, log_);
  if (!lease_path.empty()) {
    follows_lease_.emplace(
        api_, lease_path,
        Follower{[this](std::string_view json) { TakeLease(json); },
                 [this](const std::string&) { TakeLease(""); }, [] {}, log_, false});
  }
}

Feed::~Feed() = default;

void Feed::TakeLease(std::string_view json) {
  const auto now = LeaseView::Clock::now();
  const bool led = lease_.Held(now);
  lease_.Set(json, now);
  const bool leads = lease_.Held(now);
  if (leads && !led) {
    log_("leads");
    lists_.reset();
    extender_.Reset();
    if (pods_ != nullptr) {
      pods_->Reset();
    }
    lists_ = std::make_unique<Lists>(api_, extender_, pods_, log_);
  } else if (led && !leads) {
    log_("leads no more");
  }
}

}  // namespace cgpu::kube
