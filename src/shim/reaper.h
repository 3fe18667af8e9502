#ifndef CGPU_SHIM_REAPER_H_
#define CGPU_SHIM_REAPER_H_

#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/fd.h"

namespace cgpu::shim {

// Closes files that are not a GPU's, on the thread that runs Loop(): their file system may never
// answer. Add() from any thread.
class Reaper {
 public:
  void Add(UniqueFd file) {
    const std::lock_guard lock(mutex_);
    files_.push_back(std::move(file));
    added_.notify_one();
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
    }
  }
  // Nothing is left to close, nor being closed.
  bool Idle() {
    const std::lock_guard lock(mutex_);
    return files_.empty() && !closing_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<UniqueFd> files_;
  bool closing_ = false;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_REAPER_H_
