// Decides which of a container's calls may be in the driver at the same time.
//
// Calls that change what exists are ordered per client, so that the ledger sees them in the order
// that the driver did. One call of a container is in the driver per GPU, and one of RM's that names
// no GPU, because the driver's locks are global and a container must not keep others from them.
// Beside a call that takes long there may be a second. Calls that only give back are exempt. A call
// that may not start yet is parked here: without a thread, and without what its caller made us copy
// or open (pending.h). The thread that finishes a call receives the parked calls that may start
// then.
//
// Template over the parked item so that it can be tested without a kernel. Thread-safe.
#ifndef CGPU_SHIM_ADMISSION_H_
#define CGPU_SHIM_ADMISSION_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"

namespace cgpu::shim {

// The keys and the driver slot that a call needs for itself while it is in the driver.
struct Claim {
  std::vector<std::uint64_t> exclusive;  // no other call may hold any of these
  int gpu = -1;           // the driver slots that it counts on: a GPU, or one more for none; or -1
  bool releases = false;  // gives back: does not count on the GPU
  friend bool operator==(const Claim&, const Claim&) = default;
};

template <class Item>  // has a member `Claim claim`
class Admission {
 public:
  static constexpr int kPerGpu = 1;
  static constexpr int kBesideLong = 2;

  explicit Admission(std::size_t gpus) : slots_(gpus) {}

  // Returns true if a call with this claim may run now; it then holds the claim. With `hold`, it
  // may not while another runs.
  [[nodiscard]] bool Start(const Claim& claim, bool hold = false) {
    const MutexLock lock(mutex_);
    return Begin(claim, hold);
  }

  // Parks the item of a call that could not start, and returns null. Returns it if it may run by
  // now, as Start() says. With `hold`, it may start when another ends.
  std::unique_ptr<Item> Park(std::unique_ptr<Item> item, bool hold = false) {
    const MutexLock lock(mutex_);
    if (Begin(item->claim, hold)) {
      return item;
    }
    parked_.push_back(std::move(item));
    return nullptr;
  }

  // Gives back what `claim` held. Returns the parked items that may run now; they hold their
  // claims.
  std::vector<std::unique_ptr<Item>> Finish(const Claim& claim) {
    const MutexLock lock(mutex_);
    for (const std::uint64_t key : claim.exclusive) {
      held_.erase(key);
    }
    Release(claim);
    return Runnable();
  }

  // Returns the parked items that may run now beside calls that take long: those that were in the
  // driver at the last call of this function and still are. Call it periodically while anything is
  // parked.
  std::vector<std::unique_ptr<Item>> Overdue() {
    const MutexLock lock(mutex_);
    for (GpuSlot& slot : slots_) {
      slot.most = slot.started == slot.noted ? kBesideLong : kPerGpu;
      slot.noted = slot.started;
    }
    auto out = Runnable();
    for (GpuSlot& slot : slots_) {
      slot.most = kPerGpu;
    }
    return out;
  }

  // Parks an item again that Overdue() returned and no thread has run.
  void PutBack(std::unique_ptr<Item> item) {
    const MutexLock lock(mutex_);
    for (const std::uint64_t key : item->claim.exclusive) {
      held_.erase(key);
    }
    Release(item->claim);
    parked_.push_front(std::move(item));
  }

  // Removes the parked items for which `gone` is true and returns them; the caller drops them.
  template <class Predicate>
  std::vector<std::unique_ptr<Item>> Purge(Predicate gone) {
    const MutexLock lock(mutex_);
    std::vector<std::unique_ptr<Item>> out;
    for (auto it = parked_.begin(); it != parked_.end();) {
      if (gone(**it)) {
        out.push_back(std::move(*it));
        it = parked_.erase(it);
      } else {
        ++it;
      }
    }
    return out;
  }

  [[nodiscard]] std::size_t parked() const {
    const MutexLock lock(mutex_);
    return parked_.size();
  }

 private:
  struct GpuSlot {
    int running = 0;
    int most = kPerGpu;
    std::uint64_t started = 0;  // calls, ever
    std::uint64_t noted = 0;    // of `started`, by the last Overdue()
  };

  bool Begin(const Claim& claim, bool hold) CGPU_REQUIRES(mutex_) {
    if ((hold && taken_ > 0) || !Free(claim) || Overtakes(claim)) {
      return false;
    }
    Take(claim);
    return true;
  }

  GpuSlot* Slot(const Claim& claim) CGPU_REQUIRES(mutex_) {
    if (claim.gpu < 0 || claim.releases) {
      return nullptr;
    }
    return &slots_[static_cast<std::size_t>(claim.gpu)];
  }

  void Release(const Claim& claim) CGPU_REQUIRES(mutex_) {
    if (GpuSlot* slot = Slot(claim)) {
      --slot->running;
    }
    --taken_;
  }

  bool Free(const Claim& claim) CGPU_REQUIRES(mutex_) {
    for (const std::uint64_t key : claim.exclusive) {
      if (held_.contains(key)) {
        return false;
      }
    }
    const GpuSlot* slot = Slot(claim);
    return slot == nullptr || slot->running < slot->most;
  }

  // Returns true if an earlier call waits for something this one needs: calls of a client keep
  // their order.
  bool Overtakes(const Claim& claim) const CGPU_REQUIRES(mutex_) {
    return std::ranges::any_of(parked_, [&](const auto& other) {
      return std::ranges::any_of(claim.exclusive, [&](std::uint64_t key) {
        const auto& theirs = other->claim.exclusive;
        return std::ranges::find(theirs, key) != theirs.end();
      });
    });
  }

  void Take(const Claim& claim) CGPU_REQUIRES(mutex_) {
    held_.insert(claim.exclusive.begin(), claim.exclusive.end());
    if (GpuSlot* slot = Slot(claim)) {
      ++slot->running;
      ++slot->started;
    }
    ++taken_;
  }

  std::vector<std::unique_ptr<Item>> Runnable() CGPU_REQUIRES(mutex_) {
    std::vector<std::unique_ptr<Item>> out;
    std::set<std::uint64_t> waiting;  // keys that earlier parked calls wait for
    for (auto it = parked_.begin(); it != parked_.end();) {
      const Claim& claim = (*it)->claim;
      const bool blocked = std::ranges::any_of(
          claim.exclusive, [&](std::uint64_t key) { return waiting.contains(key); });
      if (!blocked && Free(claim)) {
        Take(claim);
        out.push_back(std::move(*it));
        it = parked_.erase(it);
      } else {
        waiting.insert(claim.exclusive.begin(), claim.exclusive.end());
        ++it;
      }
    }
    return out;
  }

  mutable Mutex mutex_;  // guards the rest
  std::set<std::uint64_t> held_ CGPU_GUARDED_BY(mutex_);
  std::vector<GpuSlot> slots_ CGPU_GUARDED_BY(mutex_);
  int taken_ CGPU_GUARDED_BY(mutex_) = 0;  // claims
  std::list<std::unique_ptr<Item>> parked_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_ADMISSION_H_
