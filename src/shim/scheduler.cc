#include "shim/scheduler.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "rm/nv_alloc.h"

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// Time that groups which alternate rest: taking them off the GPU (0.3 ms) is little of it.
constexpr std::uint64_t kRestUs = 50'000;
// First backoff between two tries to give a group its time slice.
constexpr std::uint64_t kLeastBackoffUs = 1'000'000;
constexpr std::uint64_t kMostBackoffUs = 60'000'000;
// Time within which channels are taken off.
constexpr std::uint64_t kTakenOffUs = 2'000;
// Submissions of a container: so many at once, as when programs start, then as far apart as this.
// Submitted groups leave the list one day without a request. A submission ends the time slice of
// the group that runs. So each takes two time slices' rest from a neighbour at the most: 3 points
// from one with half of the GPU.
constexpr std::uint64_t kAtOnce = 64;
constexpr std::uint64_t kApartUs = 100'000;

// libstdc++'s steady clock is CLOCK_MONOTONIC, which is the same in all processes.
std::uint64_t NowUs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace

Scheduler::Scheduler(std::size_t cards, CardControls* controls, ListChannels list)
    : controls_(controls), list_(std::move(list)), cards_(cards) {}

std::vector<OrderState> Scheduler::Save() const {
  const MutexLock lock(mutex_);
  std::vector<OrderState> state;
  state.reserve(cards_.size());
  for (const Card& card : cards_) {
    state.push_back({card.order, card.standard_us, card.throttled_us});
  }
  return state;
}

void Scheduler::Load(const std::vector<OrderState>& state) {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < std::min(state.size(), cards_.size()); ++i) {
    cards_[i].order = state[i].order;
    cards_[i].standard_us = state[i].standard_us;
    cards_[i].throttled_us = state[i].throttled_us;
  }
}

void Scheduler::SetOrder(std::size_t card, const governor::Order& order) {
  const MutexLock lock(mutex_);
  cards_[card].order = order;
  cards_[card].levels = true;
  if (!paused_) {
    CarryOut(card);
  }
}

bool Scheduler::NeedsLevels() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(cards_, [](const Card& card) {
    return !card.raised.empty() || (card.order.high && card.levels);
  });
}

std::uint64_t Scheduler::Throttled(std::size_t card) {
  const MutexLock lock(mutex_);
  NoteThrottled(cards_[card]);
  return cards_[card].throttled_us;
}

void Scheduler::CarryOut(std::size_t card) {
  cards_[card].backoff_us = 0;
  Refresh(card, cards_[card]);
  ApplyLevels(card, cards_[card]);
  ApplySlices(card, cards_[card]);
  cards_[card].duty.Set(cards_[card].order.duty, NowUs());
  ApplyDuty(card, cards_[card]);
  if (cards_[card].order.duty.period_us != 0) {
    StartClock();
  }
}

// Starts the clock if there is none; otherwise it checks again what is due.
void Scheduler::StartClock() {
  if (!std::exchange(clock_, true)) {
    std::thread(&Scheduler::Clock, this).detach();
  }
  changed_.NotifyOne();
}

// Waits until the container may submit.
void Scheduler::AwaitSubmission(Card& card) {
  const std::uint64_t now = NowUs();
  card.paid_us = std::max(card.paid_us, now) + kApartUs;
  if (card.paid_us > now + kAtOnce * kApartUs) {
    const std::chrono::microseconds until(card.paid_us - kAtOnce * kApartUs);
    while (!let_through_ &&
           passes_.WaitUntil(mutex_, std::chrono::steady_clock::time_point(until))) {
    }
  }
}

bool Scheduler::BeforeSchedule(std::size_t card, ledger::Handle client, ledger::Handle object) {
  // A group that another thread is freeing has no time slice for a moment.
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kBetween{1};
  const MutexLock lock(mutex_);
  Refresh(card, cards_[card]);
  const auto& others = cards_[card].others;
  if (cards_[card].order.slice_us != 0 &&
      std::ranges::none_of(others, [&](const ledger::ChannelInfo& channel) {
        return (channel.client == client && channel.channel == object) ||
               (channel.group_client == client && channel.group_handle == object);
      })) {
    AwaitSubmission(cards_[card]);
  }
  for (int tries = 1;; ++tries) {
    Refresh(card, cards_[card]);
    ApplyLevels(card, cards_[card]);
    ApplySlices(card, cards_[card]);
    const Card& one = cards_[card];
    const bool all = one.unruly.empty() && (!one.crowded || one.order.may_rest);
    if (all || tries == kTries) {
      return all;
    }
    (void)passes_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kBetween);
  }
}

// The channels that were just scheduled run, whatever the others of the container do.
void Scheduler::AfterSchedule(std::size_t card) {
  const MutexLock lock(mutex_);
  Card& one = cards_[card];
  Refresh(card, one);
  if (one.off) {
    controls_->Switch(card, one.channels, false);
  } else {
    TakeOffHeld(card, one);
  }
  changed_.NotifyOne();
}

void Scheduler::AfterFree() {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; !paused_ && i < cards_.size(); ++i) {
    Refresh(i, cards_[i]);
    if (cards_[i].undivided && cards_[i].order.slice_us != 0) {
      ApplySlices(i, cards_[i]);
    }
  }
}

// A channel that is not listed under this name may be a duplicate of one that is off.
bool Scheduler::MayPutBack(const Card& card, const ChannelName& name) {
  const auto is_it = [&](const ledger::ChannelInfo& channel) {
    return ChannelName(channel.client, channel.channel) == name;
  };
  if (std::ranges::any_of(card.others, is_it)) {
    return true;
  }
  if (card.off) {
    return false;
  }
  const auto found = std::ranges::find_if(card.channels, is_it);
  return found == card.channels.end() ? card.unruly.empty() && card.resting.empty()
                                      : !IsHeld(card, *found);
}

void Scheduler::SwitchByOwner(
    std::size_t card, const std::vector<ChannelName>& channels, bool on,
    const std::function<bool(const std::vector<std::size_t>& places)>& ask) {
  const MutexLock lock(mutex_);
  Card& one = cards_[card];
  const auto wanted = [&] {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (!on || MayPutBack(one, channels[i])) {
        places.push_back(i);
      }
    }
    return places;
  };
  Refresh(card, one);
  std::vector<std::size_t> places = wanted();
  if (!places.empty() && one.order.slice_us != 0) {
    AwaitSubmission(one);  // the runlist is submitted for it
    Refresh(card, one);
    places = wanted();
  }
  if ((!places.empty() || channels.empty()) && !ask(places)) {
    return;
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
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    const bool rested = !std::exchange(cards_[i].resting, {}).empty();
    const bool unruly = !std::exchange(cards_[i].unruly, {}).empty();  // a successor does not know
                                                                       // them
    NoteThrottled(cards_[i]);
    if (std::exchange(cards_[i].off, false) || rested || unruly) {
      Refresh(i, cards_[i]);
      PutBack(i, cards_[i]);
    }
  }
}

void Scheduler::Resume() {
  const MutexLock lock(mutex_);
  paused_ = let_through_ = false;
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    CarryOut(i);
  }
}

void Scheduler::Refresh(std::size_t index, Card& card) {
  std::optional<Channels> now = list_(index, card.seen);
  if (!now) {
    return;
  }
  NoteThrottled(card);
  card.seen = now->changes;
  card.undivided = true;
  card.channels.clear();
  card.others.clear();
  for (ledger::ChannelInfo& channel : now->all) {
    // No engine: the channel was made when an earlier version of this program did not look.
    const bool shared = channel.engine == rm::NV2080_ENGINE_TYPE_GRAPHICS ||
                        channel.engine == rm::NV2080_ENGINE_TYPE_NULL;
    (shared ? card.channels : card.others).push_back(channel);
  }
  std::erase_if(card.off_by_owner, [&](const ChannelName& name) {
    return std::ranges::none_of(now->all, [&](const auto& channel) {
      return ChannelName(channel.client, channel.channel) == name;
    });
  });
  std::set<std::uint64_t> groups;
  for (const ledger::ChannelInfo& channel : card.channels) {
    groups.insert(channel.group);
  }
  std::erase_if(card.slices, [&](const auto& slice) { return !groups.contains(slice.first); });
  std::erase_if(card.raised, [&](std::uint64_t group) { return !groups.contains(group); });
}

// Applies interleave levels. A group that another thread is freeing has none. A level that could
// not be set is tried again when something is scheduled.
void Scheduler::ApplyLevels(std::size_t index, Card& card) {
  for (const ledger::ChannelInfo& channel : card.channels) {
    const bool wanted = card.order.high && card.levels;
    if (channel.group_handle == 0 || card.raised.contains(channel.group) == wanted) {
      continue;
    }
    const auto set =
        controls_->SetInterleave(index, channel.group_client, channel.group_handle, wanted);
    if (set.ok() && wanted) {
      card.raised.insert(channel.group);
    } else if (set.ok()) {
      card.raised.erase(channel.group);
    } else if (wanted && set.error().code == Code::kUnsupported) {
      card.levels = false;
    }
  }
}

// Gives a time slice. Adds the group to `without` if that fails.
void Scheduler::GiveSlice(std::size_t index, Card& card, const ledger::ChannelInfo& channel,
                          std::uint64_t each, std::set<std::uint64_t>& without) {
  const auto given = card.slices.find(channel.group);
  const std::uint64_t had = given == card.slices.end() ? card.standard_us : given->second;
  const std::uint64_t wanted = each == 0 ? card.standard_us : each;
  if (wanted == had && channel.group_handle != 0) {
    return;
  }
  const auto before =
      channel.group_handle == 0
          ? Result<std::uint64_t>(Error{Code::kUnsupported, 0, "the group has no name", {}})
          : controls_->SetSlice(index, channel.group_client, channel.group_handle, wanted);
  if (!before.ok()) {
    without.insert(channel.group);
    return;
  }
  card.slices[channel.group] = wanted;
  if (card.standard_us == 0) {
    card.standard_us = *before;
  }
}

// Chooses resting groups. As many as possible are on, in a ring; the one behind them is first in
// the next turn.
void Scheduler::ChooseResting(Card& card, const std::set<std::uint64_t>& groups,
                              std::uint64_t now_us) {
  const std::size_t most = governor::MostGroups(card.order.slice_us);
  card.crowded = card.order.slice_us != 0 && groups.size() > most;
  const bool rested = !std::exchange(card.resting, {}).empty();
  if (!card.crowded || !card.order.may_rest || paused_) {
    return;
  }
  const auto from = groups.lower_bound(card.first);
  card.resting.assign(from, groups.end());
  card.resting.insert(card.resting.end(), groups.begin(), from);
  card.resting.erase(card.resting.begin(), card.resting.begin() + static_cast<long>(most));
  card.turn_us = rested ? card.turn_us : now_us + kRestUs;
  StartClock();
}

void Scheduler::ApplySlices(std::size_t index, Card& card) {
  card.undivided = false;
  std::map<std::uint64_t, const ledger::ChannelInfo*> channels;
  std::set<std::uint64_t> groups;
  for (const ledger::ChannelInfo& channel : card.channels) {
    channels.emplace(channel.group, &channel);
    groups.insert(channel.group);
  }
  const bool held = !card.unruly.empty() || !card.resting.empty();
  ChooseResting(card, groups, NowUs());
  const std::uint64_t whole = card.order.slice_us;
  const std::uint64_t each =
      whole == 0 ? 0 : governor::TurnOf(whole, groups.size() - card.resting.size());
  std::set<std::uint64_t> without;
  for (const auto& [group, channel] : channels) {
    const std::uint64_t turns =
        card.raised.contains(group) ? std::max<std::uint64_t>(card.order.turns, 1) : 1;
    const std::uint64_t turn = std::clamp<std::uint64_t>(each / turns, 1, governor::kMostTurnUs);
    GiveSlice(index, card, *channel, each == 0 ? 0 : turn, without);
  }
  card.unruly.clear();
  for (const ledger::ChannelInfo& channel : card.channels) {
    if (each != 0 && without.contains(channel.group)) {
      card.unruly.push_back(channel);
    }
  }
  TakeOffHeld(index, card);
  if (held && !card.off) {
    PutBack(index, card);
  }
  if (card.unruly.empty()) {
    card.backoff_us = 0;
  } else if (card.backoff_us == 0) {
    card.backoff_us = kLeastBackoffUs;
    card.again_us = NowUs() + card.backoff_us;
    StartClock();
  }
}

bool Scheduler::IsHeld(const Card& card, const ledger::ChannelInfo& channel) {
  return std::ranges::any_of(card.unruly,
                             [&](const auto& other) {
                               return other.client == channel.client &&
                                      other.channel == channel.channel;
                             }) ||
         std::ranges::find(card.resting, channel.group) != card.resting.end();
}

void Scheduler::TakeOffHeld(std::size_t index, const Card& card) {
  std::vector<ledger::ChannelInfo> held = card.channels;
  std::erase_if(held, [&](const auto& channel) { return !IsHeld(card, channel); });
  if (!held.empty()) {
    controls_->Switch(index, held, false);
  }
}

// Puts back all that may run.
void Scheduler::PutBack(std::size_t index, const Card& card) {
  std::vector<ledger::ChannelInfo> free = card.channels;
  std::erase_if(free, [&](const auto& channel) {
    return IsHeld(card, channel) || card.off_by_owner.contains({channel.client, channel.channel});
  });
  controls_->Switch(index, free, true);
}

// Lets other groups rest, if it is time. Under a duty cycle that is between two windows: its period
// may be a multiple of the turns', so that some groups would never be on in one.
void Scheduler::TakeTurns(std::size_t index, Card& card, std::uint64_t now_us) {
  if (card.resting.empty() || now_us < card.turn_us) {
    return;
  }
  const bool windows = card.order.duty.on_us != card.order.duty.period_us;
  card.turn_us = now_us + kRestUs;
  if (windows && !card.off) {
    card.turn_us = card.duty.State().until_us;
  } else if (!windows || card.served) {
    card.first = card.resting.front();
    card.served = false;
    ApplySlices(index, card);
  }
}

void Scheduler::TryAgain(std::size_t index, Card& card, std::uint64_t now_us) {
  if (!card.unruly.empty() && now_us >= card.again_us) {
    card.backoff_us = std::min(2 * card.backoff_us, kMostBackoffUs);
    card.again_us = now_us + card.backoff_us;
    ApplySlices(index, card);
  }
}

// Takes all channels off. A kernel that cannot be preempted runs on meanwhile. Once that may have
// been the machine, which was busy, but not repeatedly.
void Scheduler::TakeOff(std::size_t index, Card& card) {
  const std::uint64_t begin = NowUs();
  controls_->Switch(index, card.channels, false);
  const std::uint64_t took = NowUs() - begin;
  const std::uint64_t overran = took - std::min(took, kTakenOffUs);
  card.duty.Overran(std::min({overran, card.overran_us[0], card.overran_us[1]}));
  card.overran_us = {overran, card.overran_us[0]};
}

// Counts the time since the last call, if the container was kept off in it. Call it before `off` or
// the channels change.
void Scheduler::NoteThrottled(Card& card) {
  const std::uint64_t now = NowUs();
  if (card.off && !card.channels.empty()) {
    card.throttled_us += now - card.noted_us;
  }
  card.noted_us = now;
}

void Scheduler::ApplyDuty(std::size_t index, Card& card) {
  const bool off = !card.duty.Update(card.ran, NowUs()).on && !paused_;
  if (off != card.off) {
    NoteThrottled(card);
    card.off = off;
    off ? TakeOff(index, card) : PutBack(index, card);
  }
  card.ran = !off && !card.channels.empty();
  card.served = card.served || card.ran;
}

// Returns the next edge of the GPUs that have anything to take off.
std::uint64_t Scheduler::NextEdge() const {
  std::uint64_t next = kNever;
  for (const Card& card : cards_) {
    if (!card.channels.empty()) {
      next = std::min(next, card.duty.State().until_us);
    }
    if (!card.resting.empty()) {
      next = std::min(next, card.turn_us);
    }
    if (!card.unruly.empty()) {
      next = std::min(next, card.again_us);
    }
  }
  return next;
}

void Scheduler::Clock() {
  const MutexLock lock(mutex_);
  while (true) {
    for (std::size_t i = 0; !paused_ && i < cards_.size(); ++i) {
      Refresh(i, cards_[i]);
      ApplyDuty(i, cards_[i]);
      TakeTurns(i, cards_[i], NowUs());
      TryAgain(i, cards_[i], NowUs());
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
