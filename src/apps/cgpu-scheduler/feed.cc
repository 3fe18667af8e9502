#include "apps/cgpu-scheduler/feed.h"

#include <string_view>
#include <utility>

#include "kube/follow.h"

namespace cgpu::kube {

// Follows the nodes and the pods from its construction to its destruction.
class Feed::Lists {
 public:
  Lists(const Api& api, Extender& extender, const Log& log) : extender_(extender), log_(log) {
    const Follower nodes{[this](std::string_view json) { extender_.SetNode(json); },
                         [this](const std::string& name) { extender_.RemoveNode(name); },
                         [this] { Complete(nodes_seen_); }, log_, false};
    const Follower pods{[this](std::string_view json) { extender_.SetPod(json); },
                        [this](const std::string& uid) { extender_.RemovePod(uid); },
                        [this] { Complete(pods_seen_); }, log_, true};
    follows_nodes_ =
        std::thread([this, &api, nodes] { Follow(api, "/api/v1/nodes", nodes, stop_); });
    follows_pods_ = std::thread([this, &api, pods] { Follow(api, "/api/v1/pods", pods, stop_); });
  }
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;
  ~Lists() {
    stop_.Set();
    follows_nodes_.join();
    follows_pods_.join();
  }

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
  Stop stop_;
  std::atomic<bool> nodes_seen_{false};
  std::atomic<bool> pods_seen_{false};
  std::thread follows_nodes_;
  std::thread follows_pods_;
};

Feed::Feed(const Api& api, Extender& extender, const std::string& lease_path, LeaseView& lease,
           Log log)
    : api_(api), extender_(extender), lease_(lease), log_(std::move(log)) {
  lists_ = std::make_unique<Lists>(api_, extender_, log_);
  if (lease_path.empty()) {
    return;
  }
  const Follower follower{[this](std::string_view json) { TakeLease(json); },
                          [this](const std::string&) { TakeLease(""); }, [] {}, log_, false};
  follows_lease_ =
      std::thread([this, lease_path, follower] { Follow(api_, lease_path, follower, stop_); });
}

Feed::~Feed() {
  stop_.Set();
  if (follows_lease_.joinable()) {
    follows_lease_.join();
  }
}

void Feed::TakeLease(std::string_view json) {
  const auto now = LeaseView::Clock::now();
  const bool led = lease_.Held(now);
  lease_.Set(json, now);
  const bool leads = lease_.Held(now);
  if (leads && !led) {
    log_("leads");
    lists_.reset();
    extender_.Reset();
    lists_ = std::make_unique<Lists>(api_, extender_, log_);
  } else if (led && !leads) {
    log_("leads no more");
  }
}

}  // namespace cgpu::kube
