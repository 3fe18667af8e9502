#ifndef CGPU_SHIM_REAPER_H_
#define CGPU_SHIM_REAPER_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "base/mutex.h"

namespace cgpu::shim {

// Closes files on the thread that runs Loop(), because their drivers or file systems may take long
// to answer, or never answer. Any thread may call the rest.
class Reaper {
 public:
  // Most files at a time.
  static constexpr std::size_t kMost = 512;

  // Takes `file` if there is room, or if room appears within `timeout`; otherwise it stays the
  // caller's.
  bool Add(UniqueFd& file, std::chrono::milliseconds timeout = {}) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    const MutexLock lock(mutex_);
    while (files_.size() >= kMost) {
      if (!closed_.WaitUntil(mutex_, until) && files_.size() >= kMost) {
        return false;
      }
    }
    files_.push_back(std::move(file));
    added_.NotifyOne();
    return true;
  }
  [[nodiscard]] bool HasRoomFor(std::size_t files) {
    const MutexLock lock(mutex_);
    return files_.size() + files <= kMost;
  }
  // Starts a thread that runs Loop(), for as long as the process lives.
  static void Start(const std::shared_ptr<Reaper>& reaper) {
    std::thread([reaper] { reaper->Loop(); }).detach();
  }
  void Loop() {
    while (true) {
      MutexLock lock(mutex_);
      while (files_.empty()) {
        added_.Wait(mutex_);
      }
      UniqueFd file = std::move(files_.front());
      files_.pop_front();
      closing_ = true;
      lock.Unlock();
      file.reset();
      lock.Lock();
      closing_ = false;
      closed_.NotifyAll();
    }
  }
  // Returns true if no file is left to close or being closed.
  bool Idle() {
    const MutexLock lock(mutex_);
    return files_.empty() && !closing_;
  }

 private:
  Mutex mutex_;
  CondVar added_;
  CondVar closed_;
  std::deque<UniqueFd> files_ CGPU_GUARDED_BY(mutex_);
  bool closing_ CGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_REAPER_H_
