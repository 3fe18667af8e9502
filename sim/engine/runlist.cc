// How an engine goes on from one event to the next. What changes from outside is in
// runlist_orders.cc.
#include "sim/engine/runlist.h"

#include <algorithm>

namespace cgpu::sim::engine {

bool Group::IsScheduled() const {
  return !fault && std::ranges::any_of(channels, [](const Channel* channel) {
    return channel->scheduled && !channel->stopped;
  });
}

// --- Who could run.

bool Runlist::CanRun(const Channel& channel) const {
  if (!channel.MayRun() || !channel.HasWork()) {
    return false;
  }
  const bool waits = channel.wait && !channel.operation;
  return !waits || channel.wait->looked != shared_.memory_state;
}

bool Runlist::MightRun(const Group& group) const {
  return !group.fault && std::ranges::any_of(group.channels, [this](const Channel* channel) {
    return CanRun(*channel);
  });
}

bool Runlist::Alone() const {
  return std::ranges::none_of(
      groups_, [this](const Group* group) { return group != current_ && MightRun(*group); });
}

// Whether it has something to do now. Looks at the semaphore that it waits for.
bool Runlist::LookAt(Channel& channel) const {
  if (!CanRun(channel)) {
    return false;
  }
  if (!channel.wait || (channel.operation && !channel.Holds())) {
    return true;
  }
  const std::optional<bool> there =
      IsThere(channel.wait->acquire, *shared_.memory, channel.place.space);
  if (there == std::optional(false)) {
    channel.wait->looked = shared_.memory_state;
    return channel.Holds();
  }
  channel.operation.reset();
  if (!there) {
    return true;  // to fail when it runs
  }
  channel.wait.reset();
  return channel.HasWork();
}

bool Runlist::LookAt(Group& group, Time now) const {
  if (group.fault) {
    return false;
  }
  for (Channel* channel : group.channels) {
    if (LookAt(*channel)) {
      Show(group, now);
      return true;
    }
  }
  return false;
}

void Runlist::Show(Group& group, Time now) const {
  if (!group.began && !group.visible) {
    group.visible = now;
  }
}

std::optional<std::size_t> Runlist::FindNext(Time now) {
  for (std::size_t i = 1; i <= round_.size(); ++i) {
    const std::size_t entry = (position_ + i) % round_.size();
    if (LookAt(*round_[entry], now)) {
      return entry;
    }
  }
  return std::nullopt;
}

Channel* Runlist::InTurn() const {
  return current_ == nullptr || current_->channels.empty() ? nullptr
                                                           : current_->channels[current_->turn];
}

// The channel in turn, or the next one that has something to do; one that holds the engine if no
// other has. False: none has.
bool Runlist::PickChannel() {
  const std::size_t count = current_->channels.size();
  std::optional<std::size_t> holds;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t turn = (current_->turn + i) % count;
    if (!LookAt(*current_->channels[turn])) {
      continue;
    }
    if (!current_->channels[turn]->Holds()) {
      current_->turn = turn;
      return true;
    }
    holds = holds.value_or(turn);
  }
  current_->turn = holds.value_or(current_->turn);
  return holds.has_value();
}

// Whether the engine is held by a channel that need not hold it any more: its semaphore has come,
// or another one of its group has something to do.
bool Runlist::HoldIsOver() {
  if (!operating_ || !InTurn()->Holds()) {
    return false;
  }
  bool works = false;
  for (Channel* channel : current_->channels) {
    works = (LookAt(*channel) && !channel->Holds()) || works;
  }
  return works || !InTurn()->Holds();
}

// --- Time.

void Runlist::Account(Time now) {
  const Duration passed = now - accounted_;
  accounted_ = now;
  switch (state_) {
    case State::kIdle:
      accounting_.idle_ns += passed;
      break;
    case State::kSwitching:
      accounting_.switching_ns += passed;
      break;
    case State::kRunning:
      accounting_.busy_ns += passed;
      current_->gpu_time += passed;
      break;
  }
}

// When the group that runs has something to do next.
Time Runlist::RunDue(Time now) const {
  if (!operating_) {
    return std::max(ready_, now);
  }
  const Time end = since_ + InTurn()->operation->remaining;
  const Time off = leaves_ ? *leaves_ + shared_.costs.context_switch_timeout_ns : slice_end_;
  return std::max({since_, now, std::min(end, off)});
}

Time Runlist::NextEvent() const {
  return operating_ && !leaves_ && Alone() ? since_ + InTurn()->operation->remaining : due_;
}

// The slice begins again, in step with when it began first. With nobody else who could want the
// engine, all slices that end within the operation are one.
void Runlist::RollSlice(Time now) {
  const Duration slice = current_->slice;
  Time beyond = now;
  if (operating_ && Alone()) {
    beyond = std::max(beyond, since_ + InTurn()->operation->remaining - 1);
  }
  slice_end_ += ((beyond - slice_end_) / slice + 1) * slice;
}

// --- Events.

std::uint64_t Runlist::Handle() {
  const Time now = due_;
  Account(now);
  if (state_ == State::kSwitching) {
    Begin(true, now);
    return 1;
  }
  return Run(now);
}

std::uint64_t Runlist::Run(Time now) {
  const Machine machine{*shared_.memory,     *shared_.events, shared_.costs, id_, now,
                        shared_.memory_state};
  if (operating_) {
    Channel& channel = *InTurn();
    if (now - since_ >= channel.operation->remaining) {
      return After(channel, Complete(channel, machine), now);
    }
    if (leaves_) {
      Fail(channel, FaultReport{Fault::kContextSwitchTimeout, 0}, now);
    } else {
      Expire(now);
    }
    return 1;
  }
  if (!PickChannel()) {
    Choose(now);
    return 1;
  }
  if (now >= slice_end_) {
    Expire(now);
    return 1;
  }
  Channel& channel = *InTurn();
  if (channel.operation) {  // one that was paused
    operating_ = true;
    since_ = now;
    due_ = RunDue(now);
    return 1;
  }
  if (channel.wait) {  // LookAt() could not read it
    Fail(channel, FaultReport{Fault::kMmu, channel.wait->acquire.address}, now);
    return 1;
  }
  return After(channel, Next(channel, machine), now);
}

std::uint64_t Runlist::After(Channel& channel, const Step& step, Time now) {
  current_->kernels += step.kernel_ended ? 1 : 0;
  current_->copied_bytes += step.copied_bytes;
  if (step.wrote) {
    ++shared_.memory_state;
    shared_.wrote = true;
  }
  if (step.fault) {
    Fail(channel, *step.fault, now);
    return step.work;
  }
  ready_ = now + step.cost;
  operating_ = channel.operation.has_value();
  since_ = ready_;
  if (step.entry_ended) {
    current_->turn = (current_->turn + 1) % current_->channels.size();
  }
  if (leaves_) {
    Pause(now);
    Choose(now);
    return step.work;
  }
  if (step.yields) {
    slice_end_ = std::min(slice_end_, ready_);
  }
  due_ = RunDue(now);
  return step.work;
}

// The slice is over, or the runlist was submitted anew.
void Runlist::Expire(Time now) {
  const std::optional<std::size_t> next = FindNext(now);
  if (next && round_[*next] != current_) {
    if (RunsOn()) {
      leaves_ = now;
      due_ = RunDue(now);
      return;
    }
    Pause(now);
    GoTo(*next, now);
    return;
  }
  if (next) {
    position_ = *next;
  }
  RollSlice(now);
  due_ = RunDue(now);
}

// The operation in turn keeps what is left of it.
void Runlist::Pause(Time now) {
  if (!operating_) {
    return;
  }
  operating_ = false;
  std::optional<Operation>& operation = InTurn()->operation;
  if (operation && now > since_) {
    operation->remaining -= std::min(now - since_, operation->remaining - 1);
  }
}

void Runlist::GoTo(std::size_t entry, Time now) {
  if (current_ != round_[entry]) {
    Settle(now);
  }
  position_ = entry;
  current_ = round_[entry];
  leaves_.reset();
  if (loaded_ == current_) {
    Begin(false, now);
    return;
  }
  if (loaded_ != nullptr) {
    NoteResidence(*loaded_, false, now + shared_.costs.context_switch_ns / 2);
  }
  loaded_ = current_;
  ++current_->switches;
  ++accounting_.switches;
  state_ = State::kSwitching;
  due_ = now + shared_.costs.context_switch_ns;
}

void Runlist::NoteResidence(const Group& group, bool begins, Time at) const {
  shared_.residence_log.push_back(Residence{shared_.residences++, id_, group.key, at, begins});
  if (shared_.residence_log.size() > shared_.costs.kept_residences) {
    shared_.residence_log.pop_front();
  }
}

void Runlist::Begin(bool switched, Time now) {
  if (switched) {
    NoteResidence(*current_, true, now);
  }
  state_ = State::kRunning;
  slice_end_ = now + current_->slice;
  ready_ = due_ = now;
  if (current_->began) {
    return;
  }
  current_->began = true;
  const Time visible = current_->visible.value_or(now);
  current_->visible.reset();
  shared_.log.push_back(Start{shared_.starts++, current_->key, visible, now, switched});
  if (shared_.log.size() > shared_.costs.kept_starts) {
    shared_.log.pop_front();
  }
}

// The current group leaves: with its work done, or not allowed, the next work is a new start.
void Runlist::Settle(Time now) {
  if (current_ != nullptr && !LookAt(*current_, now)) {
    current_->began = false;
    current_->visible.reset();
  }
}

void Runlist::Choose(Time now) {
  Settle(now);
  leaves_.reset();
  const std::optional<std::size_t> next = FindNext(now);
  if (next) {
    GoTo(*next, now);
    return;
  }
  state_ = State::kIdle;
  current_ = nullptr;
  due_ = kNever;
}

}  // namespace cgpu::sim::engine
