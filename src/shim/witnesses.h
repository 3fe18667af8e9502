// The witnesses of managed memory (boundary/managed_tracker.h): address spaces, kept open under
// numbers that are never used again. Thread-safe.
#ifndef CGPU_SHIM_WITNESSES_H_
#define CGPU_SHIM_WITNESSES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "os/address_space.h"

namespace cgpu::shim {

class Witnesses {
 public:
  using Number = std::uint64_t;
  using Space = std::shared_ptr<const os::AddressSpace>;
  // Most witnesses, with two descriptors each. Since those of one address space are joined, only a
  // container that does so on purpose has more.
  static constexpr std::size_t kMax = 2048;

  // Returns 0 if there are too many.
  Number Add(os::AddressSpace space) {
    const MutexLock lock(mutex_);
    if (spaces_.size() >= kMax) {
      return 0;
    }
    spaces_[next_] = std::make_shared<os::AddressSpace>(std::move(space));
    return next_++;
  }
  // Returns null if the number is unknown.
  [[nodiscard]] Space Find(Number number) const {
    const MutexLock lock(mutex_);
    const auto found = spaces_.find(number);
    return found == spaces_.end() ? nullptr : found->second;
  }
  void Drop(const std::vector<Number>& numbers) {
    const MutexLock lock(mutex_);
    for (const Number number : numbers) {
      spaces_.erase(number);
    }
  }

  // Hand-over to a later one.
  [[nodiscard]] std::map<Number, Space> All() const {
    const MutexLock lock(mutex_);
    return spaces_;
  }
  void Adopt(Number number, os::AddressSpace space) {
    const MutexLock lock(mutex_);
    spaces_[number] = std::make_shared<os::AddressSpace>(std::move(space));
    next_ = std::max(next_, number + 1);
  }
  // Notes that numbers below were used.
  void StartAt(Number number) {
    const MutexLock lock(mutex_);
    next_ = std::max(next_, number);
  }

 private:
  mutable Mutex mutex_;  // guards the rest
  std::map<Number, Space> spaces_ CGPU_GUARDED_BY(mutex_);
  Number next_ CGPU_GUARDED_BY(mutex_) = 1;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_WITNESSES_H_
