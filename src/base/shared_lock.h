// A lock that many hold together or one holds alone. One that waits to be alone goes before those
// that come later, so that holders who come and go all the time cannot keep it out.
#ifndef CGPU_BASE_SHARED_LOCK_H_
#define CGPU_BASE_SHARED_LOCK_H_

#include <chrono>
#include <cstddef>

#include "base/mutex.h"

namespace cgpu {

// For std::shared_lock and std::unique_lock, whose names it has for that. No thread may take it
// twice. Thread-safe.
class SharedLock {
 public:
  void lock_shared() {
    const MutexLock lock(mutex_);
    while (alone_ || waiting_ > 0) {
      changed_.Wait(mutex_);
    }
    ++shared_;
  }
  void unlock_shared() {
    const MutexLock lock(mutex_);
    if (--shared_ == 0) {
      changed_.NotifyAll();
    }
  }

  // Returns false if those that hold it do not let go in time.
  [[nodiscard]] bool try_lock_for(std::chrono::milliseconds timeout) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    const MutexLock lock(mutex_);
    ++waiting_;
    bool in_time = true;
    while ((alone_ || shared_ > 0) && in_time) {
      in_time = changed_.WaitUntil(mutex_, until);
    }
    --waiting_;
    const bool got = !alone_ && shared_ == 0;
    alone_ = alone_ || got;
    if (!got) {
      changed_.NotifyAll();
    }
    return got;
  }
  void unlock() {
    const MutexLock lock(mutex_);
    alone_ = false;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;  // taken alone
  CondVar changed_;
  std::size_t shared_ CGPU_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ CGPU_GUARDED_BY(mutex_) = 0;  // to be alone
  bool alone_ CGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace cgpu

#endif  // CGPU_BASE_SHARED_LOCK_H_
