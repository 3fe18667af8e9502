// Follows the objects of one kind at the API server: lists them, then watches for changes, for
// ever. Where a watch cannot go on it lists again; objects that are gone by then are reported as
// removed.
#ifndef CGPU_KUBE_FOLLOW_H_
#define CGPU_KUBE_FOLLOW_H_

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "kube/api.h"
#include "kube/stop.h"

namespace cgpu::kube {

struct Follower {
  std::function<void(std::string_view json)> set;      // it is new, or has changed
  std::function<void(const std::string& key)> remove;  // it is gone
  std::function<void()> complete;                      // a list has been seen as a whole
  std::function<void(const std::string& sentence)> log;
  bool by_uid = true;  // keys are uids; else names
};

// `path`: of the list, for example /api/v1/pods. Returns when `stop` is set. For one thread; calls
// the follower's functions on it.
void Follow(const Api& api, const std::string& path, const Follower& follower, const Stop& stop);

// Follows on a thread of its own until it is destroyed.
class FollowThread {
 public:
  // `api` outlives this.
  FollowThread(const Api& api, const std::string& path, Follower follower)
      : follower_(std::move(follower)),
        thread_([this, &api, path] { Follow(api, path, follower_, stop_); }) {}
  FollowThread(const FollowThread&) = delete;
  FollowThread& operator=(const FollowThread&) = delete;
  ~FollowThread() {
    stop_.Set();
    thread_.join();
  }

 private:
  const Follower follower_;
  Stop stop_;
  std::thread thread_;  // begins last
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_FOLLOW_H_
