#include "shim/scheduler.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "rm/nv_alloc.h"

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMostBackoffUs = 60'000'000;
// Time within which channels are taken off.
constexpr std::uint64_t kTakenOffUs = 2'000;
// Submissions of a container: so many at once, as when programs start, then as far apart as this.
// Submitted groups leave the list one day without a request. A submission ends the time slice of
// the group that runs. So each takes two time slices' rest from a neighbour at the most: 3 points
// from one with half of the GPU.
constexpr std::uint64_t kAtOnce = 64;
constexpr std::uint64_t kApartUs = 100'000;

// Returns whether `object` is the channel or its group.
bool IsOf(const ledger::ChannelInfo& channel, std::uint64_t object) {
  return channel.id == object || channel.group == object;
}

}  // namespace

// libstdc++'s steady clock is CLOCK_MONOTONIC, which is the same in all processes.
std::uint64_t NowUs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

Scheduler::Scheduler(std::size_t gpus, GpuControls* controls, ListChannels list)
    : controls_(controls), list_(std::move(list)), gpus_(gpus) {}

std::vector<OrderState> Scheduler::Save() const {
  const MutexLock lock(mutex_);
  std::vector<OrderState> state;
  state.reserve(gpus_.size());
  for (const Gpu& gpu : gpus_) {
    state.push_back({gpu.order,
                     gpu.standard_us,
                     gpu.throttled_us,
                     true,
                     {gpu.scheduled.begin(), gpu.scheduled.end()}});
  }
  return state;
}

void Scheduler::Load(const std::vector<OrderState>& state) {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < std::min(state.size(), gpus_.size()); ++i) {
    gpus_[i].order = state[i].order;
    gpus_[i].standard_us = state[i].standard_us;
    gpus_[i].throttled_us = state[i].throttled_us;
    gpus_[i].all_scheduled = !state[i].knows_scheduled;
    gpus_[i].scheduled.insert(state[i].scheduled.begin(), state[i].scheduled.end());
  }
}

void Scheduler::SetOrder(std::size_t gpu, const governor::Order& order) {
  const MutexLock lock(mutex_);
  gpus_[gpu].order = order;
  gpus_[gpu].levels = true;
  if (!paused_) {
    CarryOut(gpu);
  }
}

bool Scheduler::NeedsHelper() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(gpus_, [](const Gpu& gpu) {
    return !gpu.raised.empty() || (gpu.order.high && gpu.levels) ||
           gpu.order.trigger == governor::Trigger::kRestart;
  });
}

std::uint64_t Scheduler::Throttled(std::size_t gpu) {
  const MutexLock lock(mutex_);
  NoteThrottled(gpus_[gpu]);
  return gpus_[gpu].throttled_us;
}

void Scheduler::CarryOut(std::size_t gpu) {
  gpus_[gpu].backoff_us = 0;
  Refresh(gpu, gpus_[gpu]);
  ApplyLevels(gpu, gpus_[gpu]);
  ApplySlices(gpu, gpus_[gpu]);
  TriggerIfNeeded(gpu, gpus_[gpu]);
  gpus_[gpu].duty.Set(gpus_[gpu].order.duty, NowUs());
  ApplyDuty(gpu, gpus_[gpu]);
  if (gpus_[gpu].order.duty.period_us != 0) {
    StartClock();
  }
  passes_.NotifyAll();  // who waits for a window may have another one now, or need none
}

// Starts the clock if there is none; otherwise it checks again what is due.
void Scheduler::StartClock() {
  if (!std::exchange(clock_, true)) {
    std::thread(&Scheduler::Clock, this).detach();
  }
  changed_.NotifyOne();
}

// Waits until the container may submit.
void Scheduler::AwaitSubmission(Gpu& gpu) {
  const std::uint64_t now = NowUs();
  // A trigger is like a submission, too: there may be one when channels are scheduled, and one when
  // they are gone.
  const bool triggers = gpu.order.trigger != governor::Trigger::kNone;
  gpu.paid_us = std::max(gpu.paid_us, now) + (triggers ? 3 : 1) * kApartUs;
  if (gpu.paid_us > now + kAtOnce * kApartUs) {
    const std::chrono::microseconds until(gpu.paid_us - kAtOnce * kApartUs);
    while (!let_through_ &&
           passes_.WaitUntil(mutex_, std::chrono::steady_clock::time_point(until))) {
    }
  }
}

bool Scheduler::BeforeSchedule(std::size_t gpu, std::uint64_t object) {
  // A group that another thread is freeing has no time slice for a moment.
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kBetween{1};
  const MutexLock lock(mutex_);
  Gpu& one = gpus_[gpu];
  Refresh(gpu, one);
  const bool shares =
      std::ranges::none_of(one.others, [&](const auto& other) { return IsOf(other, object); });
  if (one.order.slice_us != 0 && shares) {
    AwaitSubmission(one);
  }
  for (int tries = 1;;) {
    Refresh(gpu, one);
    ApplyLevels(gpu, one);
    ApplySlices(gpu, one);
    if (!one.unruly.empty() || (one.crowded && !one.order.may_rest)) {
      if (tries++ == kTries) {
        return false;
      }
      (void)passes_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kBetween);
    } else if (shares && (one.off || !one.duty.State().on) && !let_through_ && !paused_) {
      changed_.NotifyOne();  // the clock rests while there are no channels
      passes_.Wait(mutex_);
    } else {
      break;
    }
  }
  if (shares) {
    MakeWhole(gpu, one, object);
    one.scheduling.insert(object);
  }
  return true;
}

// Puts all channels of the group on the GPU.
void Scheduler::MakeWhole(std::size_t index, Gpu& gpu, std::uint64_t object) {
  if (gpu.off) {
    NoteThrottled(gpu);
    gpu.off = false;
    PutBack(index, gpu);
  }
  std::set<std::uint64_t> groups;
  for (const ledger::ChannelInfo& channel : gpu.channels) {
    if (IsOf(channel, object)) {
      groups.insert(channel.group);
    }
  }
  std::vector<ledger::ChannelInfo> parts = gpu.channels;
  std::erase_if(parts, [&](const auto& channel) { return !groups.contains(channel.group); });
  SwitchOn(index, gpu, std::move(parts));
}

// The channels that were just scheduled run, whatever the others of the container do.
void Scheduler::AfterSchedule(std::size_t gpu, std::uint64_t object, Scheduled result) {
  const MutexLock lock(mutex_);
  Gpu& one = gpus_[gpu];
  Refresh(gpu, one);
  // Its engine is not asked for again: a group may have had its first channel meanwhile.
  if (const auto counted = one.scheduling.find(object); counted != one.scheduling.end()) {
    one.scheduling.erase(counted);
  }
  for (const ledger::ChannelInfo& channel : one.channels) {
    if (IsOf(channel, object) && result == Scheduled::kOn) {
      const bool is_new = one.scheduled.insert(channel.id).second;
      const bool done = one.order.trigger == governor::Trigger::kSchedule;  // by this schedule
      if (is_new && one.order.trigger != governor::Trigger::kNone && !done) {
        one.untriggered.insert(channel.group);
      }
    } else if (IsOf(channel, object) && result == Scheduled::kOff) {
      one.scheduled.erase(channel.id);
    }
  }
  if (!one.off) {
    TakeOffHeld(gpu, one);
  }
  TriggerIfNeeded(gpu, one);
  changed_.NotifyOne();
}

void Scheduler::AfterFree() {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; !paused_ && i < gpus_.size(); ++i) {
    Refresh(i, gpus_[i]);
    if (gpus_[i].undivided && gpus_[i].order.slice_us != 0) {
      ApplySlices(i, gpus_[i]);
      TriggerIfNeeded(i, gpus_[i]);
    }
  }
}

// A channel that is not listed under this name may be a duplicate of one that is off.
bool Scheduler::MayPutBack(const Gpu& gpu, const ChannelName& name) {
  const auto is_it = [&](const ledger::ChannelInfo& channel) {
    return ChannelName(channel.client, channel.channel) == name;
  };
  if (std::ranges::any_of(gpu.others, is_it)) {
    return true;
  }
  if (gpu.off) {
    return false;
  }
  const auto found = std::ranges::find_if(gpu.channels, is_it);
  return found == gpu.channels.end() ? gpu.unruly.empty() && gpu.resting.empty()
                                     : !IsHeld(gpu, *found);
}

void Scheduler::SwitchByOwner(
    std::size_t gpu, const std::vector<ChannelName>& channels, bool on,
    const std::function<bool(const std::vector<std::size_t>& places)>& ask) {
  const MutexLock lock(mutex_);
  Gpu& one = gpus_[gpu];
  const auto wanted = [&] {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (!on || MayPutBack(one, channels[i])) {
        places.push_back(i);
      }
    }
    return places;
  };
  Refresh(gpu, one);
  std::vector<std::size_t> places = wanted();
  if (!places.empty() && one.order.slice_us != 0) {
    AwaitSubmission(one);  // the runlist is submitted for it
    Refresh(gpu, one);
    places = wanted();
  }
  if ((!places.empty() || channels.empty()) && !ask(places)) {
    return;
  }
  for (const std::size_t place : places) {
    const auto named = std::ranges::find_if(one.channels, [&](const auto& channel) {
      return ChannelName(channel.client, channel.channel) == channels[place];
    });
    if (on && named != one.channels.end()) {
      one.taken.erase(named->id);
    }
  }
  for (const ChannelName& name : channels) {
    if (on) {
      one.off_by_owner.erase(name);
    } else {
      one.off_by_owner.insert(name);
    }
  }
}

void Scheduler::LetThrough() {
  const MutexLock lock(mutex_);
  let_through_ = true;
  passes_.NotifyAll();
}

void Scheduler::Pause() {
  const MutexLock lock(mutex_);
  paused_ = true;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const bool rested = !std::exchange(gpus_[i].resting, {}).empty();
    const bool unruly = !std::exchange(gpus_[i].unruly, {}).empty();  // a successor does not know
                                                                      // them
    NoteThrottled(gpus_[i]);
    if (std::exchange(gpus_[i].off, false) || rested || unruly) {
      Refresh(i, gpus_[i]);
      PutBack(i, gpus_[i]);
    }
  }
  passes_.NotifyAll();
}

void Scheduler::Resume() {
  const MutexLock lock(mutex_);
  paused_ = let_through_ = false;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    CarryOut(i);
  }
}

void Scheduler::Refresh(std::size_t index, Gpu& gpu) {
  std::optional<Channels> now = list_(index, gpu.seen);
  if (!now) {
    return;
  }
  NoteThrottled(gpu);
  gpu.seen = now->changes;
  gpu.undivided = true;
  gpu.channels.clear();
  gpu.others.clear();
  for (ledger::ChannelInfo& channel : now->all) {
    // No engine: the channel was made when an earlier version of this program did not look.
    const bool shared = channel.engine == rm::NV2080_ENGINE_TYPE_GRAPHICS ||
                        channel.engine == rm::NV2080_ENGINE_TYPE_NULL;
    (shared ? gpu.channels : gpu.others).push_back(channel);
  }
  std::erase_if(gpu.off_by_owner, [&](const ChannelName& name) {
    return std::ranges::none_of(now->all, [&](const auto& channel) {
      return ChannelName(channel.client, channel.channel) == name;
    });
  });
  std::set<std::uint64_t> groups;
  std::set<std::uint64_t> ids;
  for (const ledger::ChannelInfo& channel : gpu.channels) {
    groups.insert(channel.group);
    ids.insert(channel.id);
  }
  if (std::exchange(gpu.all_scheduled, false)) {
    gpu.scheduled = ids;
  }
  std::erase_if(gpu.scheduled, [&](std::uint64_t id) { return !ids.contains(id); });
  std::erase_if(gpu.taken, [&](std::uint64_t id) { return !ids.contains(id); });
  std::erase_if(gpu.slices, [&](const auto& slice) { return !groups.contains(slice.first); });
  std::erase_if(gpu.raised, [&](std::uint64_t group) { return !groups.contains(group); });
  std::erase_if(gpu.untriggered, [&](std::uint64_t group) { return !groups.contains(group); });
}

bool Scheduler::IsHeld(const Gpu& gpu, const ledger::ChannelInfo& channel) {
  return std::ranges::any_of(gpu.unruly,
                             [&](const auto& other) {
                               return other.client == channel.client &&
                                      other.channel == channel.channel;
                             }) ||
         std::ranges::find(gpu.resting, channel.group) != gpu.resting.end();
}

// Takes off those of the channels that are scheduled. On an H200, programs hung that started while
// all were taken off, also those that were not scheduled yet (docs/hardware/h200-580.159.04.md).
// Nobody knows yet which rule they broke. So nothing that might be one is done: a channel that is
// not scheduled is not named, none is put back that was not taken off, and no group is scheduled
// while channels of it are off.
void Scheduler::SwitchOff(std::size_t index, Gpu& gpu, std::vector<ledger::ChannelInfo> channels) {
  std::erase_if(channels, [&](const auto& channel) { return !gpu.scheduled.contains(channel.id); });
  if (channels.empty()) {
    return;
  }
  controls_->Switch(index, channels, false);
  for (const ledger::ChannelInfo& channel : channels) {
    gpu.taken.insert(channel.id);
  }
}

// Puts back those of the channels that an order took off, but not their owner.
void Scheduler::SwitchOn(std::size_t index, Gpu& gpu, std::vector<ledger::ChannelInfo> channels) {
  std::erase_if(channels, [&](const auto& channel) {
    return !gpu.taken.contains(channel.id) ||
           gpu.off_by_owner.contains({channel.client, channel.channel});
  });
  if (channels.empty()) {
    return;
  }
  controls_->Switch(index, channels, true);
  for (const ledger::ChannelInfo& channel : channels) {
    gpu.taken.erase(channel.id);
  }
}

void Scheduler::TakeOffHeld(std::size_t index, Gpu& gpu) {
  std::vector<ledger::ChannelInfo> held = gpu.channels;
  std::erase_if(held, [&](const auto& channel) { return !IsHeld(gpu, channel); });
  SwitchOff(index, gpu, std::move(held));
}

// Puts back all that may run.
void Scheduler::PutBack(std::size_t index, Gpu& gpu) {
  std::vector<ledger::ChannelInfo> free = gpu.channels;
  std::erase_if(free, [&](const auto& channel) { return IsHeld(gpu, channel); });
  SwitchOn(index, gpu, std::move(free));
  passes_.NotifyAll();
}

// Lets other groups rest, if it is time. Under a duty cycle that is between two windows: its period
// may be a multiple of the turns', so that some groups would never be on in one.
void Scheduler::TakeTurns(std::size_t index, Gpu& gpu, std::uint64_t now_us) {
  if (gpu.resting.empty() || now_us < gpu.turn_us) {
    return;
  }
  const bool windows = gpu.order.duty.on_us != gpu.order.duty.period_us;
  gpu.turn_us = now_us + kRestUs;
  if (windows && !gpu.off) {
    gpu.turn_us = gpu.duty.State().until_us;
  } else if (!windows || gpu.served) {
    gpu.first = gpu.resting.front();
    gpu.served = false;
    ApplySlices(index, gpu);
    TriggerIfNeeded(index, gpu);
  }
}

void Scheduler::TryAgain(std::size_t index, Gpu& gpu, std::uint64_t now_us) {
  if ((!gpu.unruly.empty() || gpu.unleveled) && now_us >= gpu.again_us) {
    gpu.backoff_us = std::min(2 * gpu.backoff_us, kMostBackoffUs);
    gpu.again_us = now_us + gpu.backoff_us;
    ApplyLevels(index, gpu);
    ApplySlices(index, gpu);
    TriggerIfNeeded(index, gpu);
  }
}

// Takes all channels off. A kernel that cannot be preempted runs on meanwhile. Once that may have
// been the machine, which was busy, but not repeatedly.
void Scheduler::TakeOff(std::size_t index, Gpu& gpu) {
  const std::uint64_t begin = NowUs();
  SwitchOff(index, gpu, gpu.channels);
  const std::uint64_t took = NowUs() - begin;
  const std::uint64_t overran = took - std::min(took, kTakenOffUs);
  gpu.duty.Overran(std::min({overran, gpu.overran_us[0], gpu.overran_us[1]}));
  gpu.overran_us = {overran, gpu.overran_us[0]};
}

// Counts the time since the last call, if the container was kept off in it. Call it before `off` or
// the channels change.
void Scheduler::NoteThrottled(Gpu& gpu) {
  const std::uint64_t now = NowUs();
  if (gpu.off && !gpu.channels.empty()) {
    gpu.throttled_us += now - gpu.noted_us;
  }
  gpu.noted_us = now;
}

// Changes nothing while something is being scheduled; AfterSchedule() wakes the clock.
void Scheduler::ApplyDuty(std::size_t index, Gpu& gpu) {
  const bool off = !gpu.duty.Update(gpu.ran, NowUs()).on && !paused_ && gpu.scheduling.empty();
  if (off != gpu.off) {
    NoteThrottled(gpu);
    gpu.off = off;
    off ? TakeOff(index, gpu) : PutBack(index, gpu);
  }
  gpu.ran = !off && !gpu.channels.empty();
  gpu.served = gpu.served || gpu.ran;
}

// Returns the next edge of the GPUs that have anything to take off.
std::uint64_t Scheduler::NextEdge() const {
  std::uint64_t next = kNever;
  for (const Gpu& gpu : gpus_) {
    if (!gpu.channels.empty()) {
      next = std::min(next, gpu.duty.State().until_us);
    }
    if (!gpu.resting.empty()) {
      next = std::min(next, gpu.turn_us);
    }
    if (!gpu.unruly.empty() || gpu.unleveled) {
      next = std::min(next, gpu.again_us);
    }
  }
  return next;
}

void Scheduler::Clock() {
  const MutexLock lock(mutex_);
  while (true) {
    for (std::size_t i = 0; !paused_ && i < gpus_.size(); ++i) {
      Refresh(i, gpus_[i]);
      ApplyDuty(i, gpus_[i]);
      TakeTurns(i, gpus_[i], NowUs());
      TryAgain(i, gpus_[i], NowUs());
    }
    const std::uint64_t next = paused_ ? kNever : NextEdge();
    if (next == kNever) {
      changed_.Wait(mutex_);
    } else {
      const std::chrono::microseconds at(next);
      (void)changed_.WaitUntil(mutex_, std::chrono::steady_clock::time_point(at));
    }
  }
}

}  // namespace cgpu::shim
