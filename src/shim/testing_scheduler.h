// A GPU that only remembers what a scheduler asks of it, and the scheduler of one such GPU.
#ifndef CGPU_SHIM_TESTING_SCHEDULER_H_
#define CGPU_SHIM_TESTING_SCHEDULER_H_

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "rm/nv_alloc.h"
#include "shim/scheduler.h"

namespace cgpu::shim {

inline constexpr std::uint64_t kStandardUs = 1049;

// A GPU that only remembers.
class Desk final : public GpuControls {
 public:
  Result<std::uint64_t> SetSlice(std::size_t /*GPU*/, ledger::Handle /*client*/,
                                 ledger::Handle group, std::uint64_t us) override {
    const MutexLock lock(mutex_);
    if (gone_.contains(group)) {
      return Error{Code::kUnavailable, 0, "it is gone", {}};
    }
    auto& slice = slices_.try_emplace(group, kStandardUs).first->second;
    return std::exchange(slice, us);
  }
  void Switch(std::size_t /*GPU*/, const std::vector<ledger::ChannelInfo>& channels,
              bool on) override {
    const MutexLock lock(mutex_);
    for (const ledger::ChannelInfo& channel : channels) {
      EXPECT_TRUE(scheduled_.contains(channel.channel)) << channel.channel << " is not scheduled";
      if (on) {
        EXPECT_TRUE(off_.contains(channel.channel)) << channel.channel << " is not off";
        off_.erase(channel.channel);
        put_on_.insert(channel.channel);
      } else {
        off_.insert(channel.channel);
      }
    }
    ++switches_;
    switched_.NotifyAll();
  }

  Result<> SetInterleave(std::size_t /*GPU*/, ledger::Handle /*client*/, ledger::Handle group,
                         bool high) override {
    const MutexLock lock(mutex_);
    ++asked_for_levels_;
    if (refusal_) {
      return Error{*refusal_, 0, "no level", {}};
    }
    if (high) {
      raised_.insert(group);
      switched_.NotifyAll();
    } else {
      raised_.erase(group);
    }
    return {};
  }

  Result<> Pull(std::size_t /*GPU*/, const ledger::ChannelInfo& channel,
                governor::Trigger trigger) override {
    const MutexLock lock(mutex_);
    EXPECT_TRUE(scheduled_.contains(channel.channel)) << channel.channel << " is not scheduled";
    if (trigger != governor::Trigger::kRestart) {
      pulled_.insert(channel.group);
      return {};
    }
    ++restarts_;
    return refuses_restarts_ ? Result<>(Error{Code::kUnavailable, 0, "no helper", {}}) : Result<>();
  }
  void RefuseRestarts(bool refuses) {
    const MutexLock lock(mutex_);
    refuses_restarts_ = refuses;
  }
  // Returns how often a restart was asked for since the last time.
  int TakeRestarts() {
    const MutexLock lock(mutex_);
    return std::exchange(restarts_, 0);
  }
  // Returns the groups whose time slices were made to take effect since the last time.
  std::set<std::uint64_t> TakePulled() {
    const MutexLock lock(mutex_);
    return std::exchange(pulled_, {});
  }
  void RefuseLevels(std::optional<Code> how) {
    const MutexLock lock(mutex_);
    refusal_ = how;
  }
  std::set<ledger::Handle> Raised() {
    const MutexLock lock(mutex_);
    return raised_;
  }
  int AskedForLevels() {
    const MutexLock lock(mutex_);
    return asked_for_levels_;
  }
  void Add(ledger::Handle group, ledger::Handle channel,
           std::uint32_t engine = rm::NV2080_ENGINE_TYPE_GRAPHICS) {
    const MutexLock lock(mutex_);
    channels_.all.push_back({channel, 1, channel, group, 1, group, engine});
    ++channels_.changes;
  }
  // Schedules a group, or a channel.
  void Schedule(std::uint64_t object) {
    const MutexLock lock(mutex_);
    std::set<std::uint64_t> groups;
    for (const ledger::ChannelInfo& channel : channels_.all) {
      if (channel.group == object || channel.id == object) {
        groups.insert(channel.group);
        scheduled_.insert(channel.channel);
      }
    }
    for (const ledger::ChannelInfo& channel : channels_.all) {
      EXPECT_FALSE(groups.contains(channel.group) && off_.contains(channel.channel))
          << channel.channel << " is off while its group is scheduled";
    }
  }
  void Remove(ledger::Handle group) {
    const MutexLock lock(mutex_);
    std::erase_if(channels_.all, [&](const auto& channel) { return channel.group == group; });
    ++channels_.changes;
    gone_.insert(group);
  }
  void Lock(ledger::Handle group) {
    const MutexLock lock(mutex_);
    gone_.insert(group);
  }
  void Unlock(ledger::Handle group) {
    const MutexLock lock(mutex_);
    gone_.erase(group);
  }
  std::optional<Scheduler::Channels> List(std::uint64_t seen) {
    const MutexLock lock(mutex_);
    return channels_.changes == seen ? std::nullopt : std::optional(channels_);
  }
  std::map<ledger::Handle, std::uint64_t> Slices() {
    const MutexLock lock(mutex_);
    return slices_;
  }
  std::set<ledger::Handle> Off() {
    const MutexLock lock(mutex_);
    return off_;
  }
  // Returns the channels that were put on the GPU so far.
  std::set<ledger::Handle> PutOn() {
    const MutexLock lock(mutex_);
    return put_on_;
  }
  bool WaitUntilNoneIsOff() {
    const auto until = Deadline();
    const MutexLock lock(mutex_);
    while (!off_.empty() && switched_.WaitUntil(mutex_, until)) {
    }
    return off_.empty();
  }
  bool WaitUntilRaised(ledger::Handle group) {
    const auto until = Deadline();
    const MutexLock lock(mutex_);
    while (!raised_.contains(group) && switched_.WaitUntil(mutex_, until)) {
    }
    return raised_.contains(group);
  }
  bool WaitForSwitches(int more) {
    const auto until = Deadline();
    const MutexLock lock(mutex_);
    const int goal = switches_ + more;
    while (switches_ < goal && switched_.WaitUntil(mutex_, until)) {
    }
    return switches_ >= goal;
  }

 private:
  static std::chrono::steady_clock::time_point Deadline() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(60);
  }

  Mutex mutex_;
  CondVar switched_;
  Scheduler::Channels channels_ CGPU_GUARDED_BY(mutex_);
  std::map<ledger::Handle, std::uint64_t> slices_ CGPU_GUARDED_BY(mutex_);
  std::set<ledger::Handle> scheduled_ CGPU_GUARDED_BY(mutex_);
  std::set<ledger::Handle> gone_ CGPU_GUARDED_BY(mutex_);
  std::set<ledger::Handle> off_ CGPU_GUARDED_BY(mutex_);
  std::set<ledger::Handle> put_on_ CGPU_GUARDED_BY(mutex_);
  std::set<ledger::Handle> raised_ CGPU_GUARDED_BY(mutex_);
  std::optional<Code> refusal_ CGPU_GUARDED_BY(mutex_);
  int asked_for_levels_ CGPU_GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> pulled_ CGPU_GUARDED_BY(mutex_);
  int restarts_ CGPU_GUARDED_BY(mutex_) = 0;
  bool refuses_restarts_ CGPU_GUARDED_BY(mutex_) = false;
  int switches_ CGPU_GUARDED_BY(mutex_) = 0;
};

// A clock's thread never ends: the objects that it uses live as long as the process.
template <class T>
T& Keep(T* object) {
  static auto& all = *new std::vector<T*>;
  return *all.emplace_back(object);
}

struct Fixture {
  Desk& desk = Keep(new Desk);
  Scheduler& scheduler = Keep(
      new Scheduler(1, &desk, [this](std::size_t, std::uint64_t seen) { return desk.List(seen); }));
  Fixture() { scheduler.Resume(); }
};

inline Fixture& Make() {
  return Keep(new Fixture);
}

// Returns a scheduler of the same GPU that goes on from there.
inline Scheduler& Successor(Fixture& f, const std::vector<OrderState>& state) {
  Scheduler& next = Keep(new Scheduler(
      1, &f.desk, [&f](std::size_t, std::uint64_t seen) { return f.desk.List(seen); }));
  next.Load(state);
  next.Resume();
  return next;
}

inline bool Schedule(Fixture& f, std::uint64_t object) {
  if (!f.scheduler.BeforeSchedule(0, object)) {
    return false;
  }
  f.desk.Schedule(object);
  f.scheduler.AfterSchedule(0, object, Scheduler::Scheduled::kOn);
  return true;
}

inline void AddScheduled(Fixture& f, ledger::Handle group, ledger::Handle channel) {
  f.desk.Add(group, channel);
  EXPECT_TRUE(Schedule(f, group));
}

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_TESTING_SCHEDULER_H_
