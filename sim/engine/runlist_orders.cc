// Orders of others to a runlist.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/engine/round.h"
#include "sim/engine/runlist.h"

namespace cgpu::sim::engine {

void Runlist::Wake(Time now) {
  Account(now);
  if (state_ == State::kIdle) {
    Choose(now);
    return;
  }
  if (state_ == State::kRunning && !leaves_ && HoldIsOver()) {
    operating_ = false;
    ready_ = due_ = now;
    return;
  }
  // Slices that were counted as one because nobody wanted the engine.
  const bool several = state_ == State::kRunning && slice_end_ > now + current_->slice;
  if (several && !leaves_ && !Alone()) {
    slice_end_ -= (slice_end_ - now - 1) / current_->slice * current_->slice;
    due_ = RunDue(now);
  }
}

void Runlist::MakeRound() {
  std::vector<RoundMember> members;
  for (const Group* group : groups_) {
    if (group->IsScheduled()) {
      members.push_back({group->key, group->interleave});
    }
  }
  std::vector<GroupKey> keys = engine::MakeRound(members);
  const std::size_t restart = keys.empty() ? 0 : keys.size() - 1;
  position_ = shared_.costs.submission_restarts ? restart : SamePlace(keys_, position_, keys);
  keys_ = std::move(keys);
  std::unordered_map<GroupKey, Group*> by_key;
  for (Group* group : groups_) {
    by_key.emplace(group->key, group);
  }
  round_.clear();
  for (const GroupKey key : keys_) {
    round_.push_back(by_key.at(key));
  }
}

void Runlist::Submit(Time now) {
  Account(now);
  MakeRound();
  if (current_ != nullptr && !current_->IsScheduled()) {
    if (RunsOn()) {
      leaves_ = leaves_.value_or(now);
      due_ = RunDue(now);
      return;
    }
    Pause(now);
    Unload(now);
    Choose(now);
  } else if (state_ == State::kIdle) {
    if (loaded_ != nullptr && !loaded_->IsScheduled()) {
      Unload(now);
    }
    Choose(now);
  } else if (state_ == State::kRunning && !leaves_) {
    slice_end_ = now;
    Expire(now);
  }
}

// A preempted context is saved, also where no other one follows: nvgpu waits for that
// (gv11b_fifo_poll_eng_ctx_status() of fifo_gv11b.c), and the list of context switches has records
// with no next context (fecs_event_list.c formatAndNotifyFecsRecord()).
void Runlist::Unload(Time now) {
  if (loaded_ != nullptr && state_ != State::kSwitching) {
    NoteResidence(*loaded_, false, now + shared_.costs.context_switch_ns / 2);
  }
  loaded_ = nullptr;
}

Time Runlist::Leave(const Group& group, Time now) {
  if (current_ != &group) {
    if (loaded_ == &group) {
      Unload(now);
    }
    return now;
  }
  Account(now);
  const Time done = now + shared_.costs.rm_preempt_ns;
  if (RunsOn()) {
    leaves_ = leaves_.value_or(now);
    due_ = RunDue(now);
    return std::max(done, due_);
  }
  Pause(now);
  Unload(now);
  Choose(now);
  return done;
}

void Runlist::SetSlice(Group& group, Duration slice, Time now) {
  group.set_slice = slice;
  if (shared_.costs.slice_effect == SliceEffect::kAtOnce) {
    TakeEffect(group, now);
  }
}

void Runlist::NoteSchedule(Group& group, Time now) {
  const SliceEffect effect = shared_.costs.slice_effect;
  if (effect == SliceEffect::kOwnSchedule ||
      (effect == SliceEffect::kPreempt && !group.IsScheduled())) {
    TakeEffect(group, now);
  } else if (effect == SliceEffect::kAnySchedule) {
    std::ranges::for_each(groups_, [&](Group* each) { TakeEffect(*each, now); });
  }
}

void Runlist::NotePreempt(Group& group, Time now) {
  if (shared_.costs.slice_effect == SliceEffect::kPreempt) {
    TakeEffect(group, now);
  }
}

void Runlist::Restart(Time now) {
  if (shared_.costs.slice_effect != SliceEffect::kNotAtAll) {
    std::ranges::for_each(groups_, [&](Group* each) { TakeEffect(*each, now); });
  }
  ++accounting_.restarts;
  Submit(now);
}

void Runlist::TakeEffect(Group& group, Time now) {
  if (!group.set_slice) {
    return;
  }
  const Duration slice = *std::exchange(group.set_slice, std::nullopt);
  if (current_ == &group && state_ == State::kRunning && !leaves_) {
    Wake(now);  // so that the slice under way is a single one
    const Time began = slice_end_ - std::min(group.slice, slice_end_);
    slice_end_ = std::max(began + slice, now);
    group.slice = slice;
    due_ = RunDue(now);
    return;
  }
  group.slice = slice;
}

void Runlist::Remove(Group& group, Time now) {
  Account(now);
  for (Channel* channel : group.channels) {
    channel->scheduled = false;
  }
  std::erase(groups_, &group);
  if (current_ == &group) {
    Pause(now);  // whatever it runs
  }
  Submit(now);
  if (loaded_ == &group) {
    loaded_ = nullptr;
  }
}

void Runlist::Remove(Channel& channel, Time now) {
  Account(now);
  Group& group = *channel.group;
  const bool runs = current_ == &group && state_ == State::kRunning;
  if (runs) {
    Pause(now);
  }
  const auto at = std::ranges::find(group.channels, &channel);
  const auto index = static_cast<std::size_t>(at - group.channels.begin());
  if (runs && index == group.turn) {
    leaves_.reset();
  }
  group.channels.erase(at);
  group.turn -= index < group.turn ? 1 : 0;
  group.turn = group.channels.empty() ? 0 : group.turn % group.channels.size();
  if (runs) {
    due_ = RunDue(now);
  }
  if (channel.scheduled) {
    Submit(now);
  }
}

void Runlist::Fail(Channel& channel, const FaultReport& report, Time now) {
  Group& group = *channel.group;
  if (group.fault) {
    return;
  }
  Account(now);
  group.fault = report.fault;
  operating_ = operating_ && current_ != &group;
  for (Channel* each : group.channels) {
    each->operation.reset();
    each->wait.reset();
  }
  group.began = false;
  group.visible.reset();
  shared_.events->OnFault(group.key, channel.key, report.fault, report.address, now);
  Submit(now);
}

}  // namespace cgpu::sim::engine
