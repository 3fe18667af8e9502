// Limits the bytes that the calls of a container hold at the same time beyond their parameters.
#ifndef CGPU_SHIM_BYTE_BUDGET_H_
#define CGPU_SHIM_BYTE_BUDGET_H_

#include <cstddef>
#include <utility>

#include "base/mutex.h"

namespace cgpu::shim {

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t bytes) : free_(bytes) {}

  // Bytes that are taken until the share is gone.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() {
      if (budget_ != nullptr) {
        budget_->Give(bytes_);
      }
    }

   private:
    friend class ByteBudget;
    Share(ByteBudget& budget, std::size_t bytes) : budget_(&budget), bytes_(bytes) {}
    ByteBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  // Waits until so many bytes are free; at most all are asked for. The caller has no share yet, and
  // no lock that the end of another's share needs.
  [[nodiscard]] Share Take(std::size_t bytes) {
    const MutexLock lock(mutex_);
    while (free_ < bytes) {
      given_.Wait(mutex_);
    }
    free_ -= bytes;
    return {*this, bytes};
  }

 private:
  void Give(std::size_t bytes) {
    const MutexLock lock(mutex_);
    free_ += bytes;
    given_.NotifyAll();
  }

  Mutex mutex_;  // taken alone
  std::size_t free_ CGPU_GUARDED_BY(mutex_);
  CondVar given_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_BYTE_BUDGET_H_
