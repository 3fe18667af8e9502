#ifndef CGPU_SHIM_REAPER_H_
#define CGPU_SHIM_REAPER_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

#include "base/fd.h"

namespace cgpu::shim {

// Closes files on the thread that runs Loop(), because their drivers or file systems may take long
// to answer, or never answer. Any thread may call the rest.
class Reaper {
 public:
  // Most files at a time.
  static constexpr std::size_t kMost = 512;

  // Takes `file` if there is room, or if room appears within `patience`; otherwise it stays the
  // caller's.
  bool Add(UniqueFd& file, std::chrono::milliseconds patience = {}) {
    std::unique_lock lock(mutex_);
    if (!closed_.wait_for(lock, patience, [&] { return files_.size() < kMost; })) {
      return false;
    }
    files_.push_back(std::move(file));
    added_.notify_one();
    return true;
  }
  [[nodiscard]] bool HasRoomFor(std::size_t files) {
    const std::lock_guard lock(mutex_);
    return files_.size() + files <= kMost;
  }
  void Loop() {
    while (true) {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [&] { return !files_.empty(); });
      UniqueFd file = std::move(files_.front());
      files_.pop_front();
      closing_ = true;
      lock.unlock();
      file.reset();
      lock.lock();
      closing_ = false;
      closed_.notify_all();
    }
  }
  // Returns true if no file is left to close or being closed.
  bool Idle() {
    const std::lock_guard lock(mutex_);
    return files_.empty() && !closing_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable closed_;
  std::deque<UniqueFd> files_;
  bool closing_ = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_REAPER_H_
