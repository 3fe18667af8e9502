// Which of a container's calls may be in the driver at the same time.
//
// Calls that change what exists are ordered per client, so that the ledger sees them in the order
// the driver did. At most kPerCard calls of one container are in the driver per card, and as many
// of RM's that name none, because the driver's locks are global and one container must not hold
// them all; calls that only give back are exempt. A call that may not start yet is parked here,
// without a thread; whoever finishes a call is handed those that may start now.
//
// Template over the parked item so that it can be tested without a kernel. Thread-safe.
#ifndef CGPU_SHIM_ADMISSION_H_
#define CGPU_SHIM_ADMISSION_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace cgpu::shim {

// What a call needs for itself while it is in the driver.
struct Claim {
  std::vector<std::uint64_t> exclusive;  // nobody else may hold any of these
  int card = -1;          // whose driver slots it counts on: a card, or one more for none; or -1
  bool releases = false;  // gives back: does not count on the card
};

template <class Item>  // has a member `Claim claim`
class Admission {
 public:
  static constexpr int kPerCard = 2;

  explicit Admission(std::size_t cards) : running_(cards, 0) {}

  // Returns the item if it may run now, or keeps it and returns null. With `hold` it is kept even
  // so, if another runs, at whose end it may start.
  std::unique_ptr<Item> Start(std::unique_ptr<Item> item, bool hold = false) {
    const std::lock_guard lock(mutex_);
    if ((hold && taken_ > 0) || !Free(item->claim) || Overtakes(item->claim)) {
      parked_.push_back(std::move(item));
      return nullptr;
    }
    Take(item->claim);
    return item;
  }

  // Gives back what `claim` held. Returns the parked items that may run now; they hold their
  // claims.
  std::vector<std::unique_ptr<Item>> Finish(const Claim& claim) {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t key : claim.exclusive) {
      held_.erase(key);
    }
    if (int* slot = Slot(claim)) {
      --*slot;
    }
    --taken_;
    return Runnable();
  }

  // Removes the parked items for which `gone` is true and returns them, for the caller to drop.
  template <class Predicate>
  std::vector<std::unique_ptr<Item>> Purge(Predicate gone) {
    const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    return parked_.size();
  }

 private:
  int* Slot(const Claim& claim) {
    if (claim.card < 0 || claim.releases) {
      return nullptr;
    }
    return &running_[static_cast<std::size_t>(claim.card)];
  }

  bool Free(const Claim& claim) {
    const int* slot = Slot(claim);
    return (slot == nullptr || *slot < kPerCard) &&
           std::none_of(claim.exclusive.begin(), claim.exclusive.end(),
                        [&](std::uint64_t key) { return held_.contains(key); });
  }

  // True if an earlier call waits for something this one needs: calls of a client keep their order.
  bool Overtakes(const Claim& claim) const {
    return std::any_of(parked_.begin(), parked_.end(), [&](const auto& other) {
      return std::any_of(claim.exclusive.begin(), claim.exclusive.end(), [&](std::uint64_t key) {
        const auto& theirs = other->claim.exclusive;
        return std::find(theirs.begin(), theirs.end(), key) != theirs.end();
      });
    });
  }

  void Take(const Claim& claim) {
    held_.insert(claim.exclusive.begin(), claim.exclusive.end());
    if (int* slot = Slot(claim)) {
      ++*slot;
    }
    ++taken_;
  }

  std::vector<std::unique_ptr<Item>> Runnable() {
    std::vector<std::unique_ptr<Item>> out;
    std::set<std::uint64_t> waiting;  // keys that earlier parked calls wait for
    for (auto it = parked_.begin(); it != parked_.end();) {
      const Claim& claim = (*it)->claim;
      const bool blocked = std::any_of(claim.exclusive.begin(), claim.exclusive.end(),
                                       [&](std::uint64_t key) { return waiting.contains(key); });
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

  mutable std::mutex mutex_;  // guards the rest
  std::set<std::uint64_t> held_;
  std::vector<int> running_;
  int taken_ = 0;  // claims
  std::list<std::unique_ptr<Item>> parked_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_ADMISSION_H_
