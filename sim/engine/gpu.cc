#include "sim/engine/gpu.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/engine/runlist.h"

namespace cgpu::sim::engine {
namespace {

// TIMEOUT << SCALE units of 1024 ns, at least one: dev_ram.ref.txt. Rounded down as nvgpu does
// (drivers/gpu/nvgpu/common/fifo/tsg.c).
Duration SliceOf(std::uint64_t timeslice_us) {
  constexpr std::uint64_t kUnit = 1024;
  constexpr std::uint64_t kMostTimeout = 255;
  constexpr unsigned kMostScale = 15;
  constexpr std::uint64_t kMost = kMostTimeout << kMostScale;
  std::uint64_t timeout = timeslice_us > kMost * kUnit / 1000 ? kMost : timeslice_us * 1000 / kUnit;
  unsigned scale = 0;
  while (timeout > kMostTimeout) {
    timeout >>= 1U;
    ++scale;
  }
  return std::max<std::uint64_t>(timeout << scale, 1) * kUnit;
}

Costs Sane(Costs costs) {
  for (Duration* cost :
       {&costs.default_slice_ns, &costs.kernel_ns, &costs.entry_ns, &costs.method_ns}) {
    *cost = std::max(*cost, Duration{1});
  }
  costs.bytes_per_us = std::max<std::uint64_t>(costs.bytes_per_us, 1);
  return costs;
}

}  // namespace

class Gpu::State {
 public:
  State(const Costs& costs, GpuMemory& memory, GpuEvents& events, Time start) : now(start) {
    shared.costs = Sane(costs);
    shared.memory = &memory;
    shared.events = &events;
  }

  engine::Group* FindGroup(GroupKey key) {
    const auto at = groups.find(key);
    return at == groups.end() ? nullptr : &at->second;
  }
  engine::Channel* FindChannel(ChannelKey key) {
    const auto at = channels.find(key);
    return at == channels.end() ? nullptr : &at->second;
  }
  void WakeAll() {
    shared.wrote = false;
    for (auto& [id, runlist] : runlists) {
      runlist.Wake(now);
    }
  }
  // The one that is due first, by number among equals; nullptr: none ever is.
  engine::Runlist* First() {
    engine::Runlist* first = nullptr;
    for (auto& [id, runlist] : runlists) {
      if (runlist.Due() != kNever && (first == nullptr || runlist.Due() < first->Due())) {
        first = &runlist;
      }
    }
    return first;
  }
  void AccountAll() {
    for (auto& [id, runlist] : runlists) {
      runlist.Account(now);
    }
  }
  // Reads GP_PUT of a channel. True: there is more to do.
  bool Read(engine::Channel& channel) {
    engine::Group& group = *channel.group;
    if (group.fault || channel.stopped) {
      return false;
    }
    const std::uint32_t before = channel.gp_put;
    if (!ReadPut(channel, *shared.memory)) {
      if (channel.scheduled) {
        group.runlist->Fail(channel, FaultReport{Fault::kPushbuffer, 0}, now);
      }
      return false;
    }
    if (channel.gp_put == before) {
      return false;
    }
    if (channel.MayRun() && !channel.wait) {
      group.runlist->Show(group, now);
    }
    return channel.MayRun();
  }
  // Whether what a channel waits for has come; that makes it visible, no more.
  bool Came(const engine::Channel& channel) {
    if (!channel.wait || !channel.MayRun() || channel.group->fault) {
      return false;
    }
    const std::optional<bool> there =
        IsThere(channel.wait->acquire, *shared.memory, channel.place.space);
    if (there == std::optional(false)) {
      return false;
    }
    channel.group->runlist->Show(*channel.group, now);
    return true;
  }
  // Makes channels disabled, or enabled. Returns when that is done.
  Time SetDisabled(std::span<engine::Channel* const> which, bool off, bool only_scheduling) {
    std::map<GroupKey, engine::Group*> touched;
    for (engine::Channel* channel : which) {
      const bool is_on = off && channel->group->runlist->IsAt(*channel);
      if (channel->disabled != off || is_on) {
        channel->disabled = off;
        touched[channel->group->key] = channel->group;
      }
    }
    Time done = now;
    for (const auto& [key, group] : touched) {
      if (off && !only_scheduling) {
        done = std::max(done, group->runlist->Leave(*group, now));
      } else if (!off) {
        const bool works = std::ranges::any_of(group->channels, [](const engine::Channel* channel) {
          return channel->MayRun() && channel->HasWork() && !channel->wait;
        });
        if (works && !group->fault) {
          group->runlist->Show(*group, now);
        }
        group->runlist->Wake(now);
      }
    }
    return done;
  }
  Time SetScheduled(engine::Group& group, std::span<engine::Channel* const> which, bool on) {
    if (on) {
      group.runlist->NoteSchedule(group, now);
    }
    bool changed = false;
    for (engine::Channel* channel : which) {
      changed = changed || channel->scheduled != on;
      channel->scheduled = on;
    }
    if (!changed || group.fault) {
      return now;
    }
    const Time done = on ? now : group.runlist->Leave(group, now);
    if (on) {
      for (engine::Channel* channel : which) {
        Read(*channel);
      }
    }
    group.runlist->Submit(now);
    return done;
  }

  Shared shared;
  Time now;
  std::map<RunlistId, engine::Runlist> runlists;
  std::unordered_map<GroupKey, engine::Group> groups;
  std::unordered_map<ChannelKey, engine::Channel> channels;
};

Gpu::Gpu(const Costs& costs, GpuMemory& memory, GpuEvents& events, Time start)
    : state_(std::make_unique<State>(costs, memory, events, start)) {}
Gpu::~Gpu() = default;

// --- Time.

Time Gpu::Now() const {
  return state_->now;
}

bool Gpu::Advance(Time now, std::uint64_t budget) {
  State& state = *state_;
  std::uint64_t work = 0;
  engine::Runlist* first = state.First();
  while (first != nullptr && first->Due() <= now && work < budget) {
    state.now = std::max(state.now, first->Due());
    work += first->Handle();
    if (state.shared.wrote) {
      state.WakeAll();
    }
    first = state.First();
  }
  const bool all = first == nullptr || first->Due() > now;
  state.now = std::max(state.now, all ? now : first->Due());
  state.AccountAll();
  return all;
}

std::optional<Time> Gpu::NextEvent() const {
  Time next = kNever;
  for (const auto& [id, runlist] : state_->runlists) {
    next = std::min(next, runlist.NextEvent());
  }
  return next == kNever ? std::nullopt : std::optional(next);
}

bool Gpu::Waits() const {
  return std::ranges::any_of(state_->channels, [](const auto& entry) {
    const engine::Channel& channel = entry.second;
    return channel.wait && channel.MayRun() && !channel.group->fault;
  });
}

// --- Work.

bool Gpu::Poll() {
  State& state = *state_;
  ++state.shared.memory_state;
  bool more = false;
  for (auto& [id, runlist] : state.runlists) {
    for (engine::Group* group : runlist.Groups()) {
      for (engine::Channel* channel : group->channels) {
        if (channel->scheduled) {
          more = state.Read(*channel) || more;
          more = state.Came(*channel) || more;
        }
      }
    }
  }
  state.WakeAll();
  return more;
}

bool Gpu::Ring(ChannelKey key) {
  engine::Channel* channel = state_->FindChannel(key);
  if (channel == nullptr || !state_->Read(*channel)) {
    return false;
  }
  channel->group->runlist->Wake(state_->now);
  return true;
}

// --- Groups and channels.

void Gpu::AddGroup(GroupKey key, RunlistId runlist) {
  State& state = *state_;
  const auto [at, added] = state.groups.try_emplace(key);
  if (!added) {
    return;
  }
  engine::Group& group = at->second;
  group.key = key;
  group.slice = state.shared.costs.default_slice_ns;
  group.runlist =
      &state.runlists.try_emplace(runlist, runlist, state.shared, state.now).first->second;
  group.runlist->Add(group);
}

void Gpu::RemoveGroup(GroupKey key) {
  State& state = *state_;
  engine::Group* group = state.FindGroup(key);
  if (group == nullptr) {
    return;
  }
  group->runlist->Remove(*group, state.now);
  for (const engine::Channel* channel : group->channels) {
    state.channels.erase(ChannelKey{channel->key});
  }
  state.groups.erase(key);
}

void Gpu::AddChannel(ChannelKey key, GroupKey group_key, const ChannelPlace& place) {
  State& state = *state_;
  engine::Group* group = state.FindGroup(group_key);
  if (group == nullptr) {
    return;
  }
  const auto [at, added] = state.channels.try_emplace(key);
  if (!added) {
    return;
  }
  engine::Channel& channel = at->second;
  channel.key = key;
  channel.group = group;
  channel.place = place;
  group->channels.push_back(&channel);
}

void Gpu::RemoveChannel(ChannelKey key) {
  if (engine::Channel* channel = state_->FindChannel(key)) {
    channel->group->runlist->Remove(*channel, state_->now);
    state_->channels.erase(key);
  }
}

// --- Orders.

Time Gpu::Schedule(GroupKey key, bool on) {
  engine::Group* group = state_->FindGroup(key);
  return group == nullptr ? Now() : state_->SetScheduled(*group, group->channels, on);
}

Time Gpu::ScheduleChannel(ChannelKey key, bool on) {
  engine::Channel* channel = state_->FindChannel(key);
  return channel == nullptr ? Now() : state_->SetScheduled(*channel->group, {&channel, 1}, on);
}

Time Gpu::Disable(std::span<const ChannelKey> keys, bool off, bool only_scheduling) {
  State& state = *state_;
  std::vector<engine::Channel*> channels;
  for (const ChannelKey key : keys) {
    engine::Channel* channel = state.FindChannel(key);
    if (channel == nullptr) {
      continue;
    }
    const DisableEffect effect = state.shared.costs.disable_effect;
    if (channel->scheduled && effect == DisableEffect::kRestart) {
      channel->disabled_at_restart = off;
    } else if (off || !channel->scheduled || effect != DisableEffect::kForGood) {
      channels.push_back(channel);
    }
  }
  return state.SetDisabled(channels, off, only_scheduling);
}

Time Gpu::Restart(ChannelKey key) {
  State& state = *state_;
  const engine::Channel* named = state.FindChannel(key);
  if (named == nullptr) {
    return Now();
  }
  engine::Runlist& runlist = *named->group->runlist;
  std::array<std::vector<engine::Channel*>, 2> asked;  // on, off
  for (engine::Group* group : runlist.Groups()) {
    for (engine::Channel* channel : group->channels) {
      if (const auto off = std::exchange(channel->disabled_at_restart, std::nullopt)) {
        asked[*off ? 1 : 0].push_back(channel);
      }
    }
  }
  (void)state.SetDisabled(asked[0], false, false);
  const Time done = state.SetDisabled(asked[1], true, false);
  runlist.Restart(state.now);
  return done;
}

Time Gpu::Preempt(GroupKey key) {
  engine::Group* group = state_->FindGroup(key);
  if (group == nullptr) {
    return Now();
  }
  group->runlist->NotePreempt(*group, state_->now);
  return group->runlist->Leave(*group, state_->now);
}

Time Gpu::Stop(ChannelKey key) {
  engine::Channel* channel = state_->FindChannel(key);
  if (channel == nullptr || channel->stopped) {
    return Now();
  }
  channel->stopped = true;
  engine::Runlist& runlist = *channel->group->runlist;
  const Time done = runlist.Leave(*channel->group, state_->now);
  if (channel->scheduled) {
    runlist.Submit(state_->now);
  }
  return done;
}

void Gpu::SetTimeslice(GroupKey key, std::uint64_t timeslice_us) {
  if (engine::Group* group = state_->FindGroup(key)) {
    group->runlist->SetSlice(*group, SliceOf(timeslice_us), state_->now);
  }
}

void Gpu::SetInterleave(GroupKey key, Interleave level) {
  engine::Group* group = state_->FindGroup(key);
  if (group != nullptr && group->interleave != level) {
    group->interleave = level;
    group->runlist->Submit(state_->now);
  }
}

void Gpu::InjectFault(ChannelKey key, Fault fault) {
  if (engine::Channel* channel = state_->FindChannel(key)) {
    channel->group->runlist->Fail(*channel, FaultReport{fault, 0}, state_->now);
  }
}

// --- Accounting.

std::optional<GroupAccounting> Gpu::Group(GroupKey key) const {
  const engine::Group* group = state_->FindGroup(key);
  if (group == nullptr) {
    return std::nullopt;
  }
  GroupAccounting accounting;
  accounting.runlist = group->runlist->Id();
  accounting.gpu_time_ns = group->gpu_time;
  accounting.switches = group->switches;
  accounting.kernels = group->kernels;
  accounting.copied_bytes = group->copied_bytes;
  accounting.slice_ns = group->slice;
  accounting.interleave = group->interleave;
  accounting.scheduled = group->IsScheduled();
  accounting.running = group->runlist->Current() == group;
  accounting.has_work =
      !group->fault && std::ranges::any_of(group->channels, [](const auto* channel) {
        return channel->HasWork() && !channel->wait && !channel->stopped;
      });
  accounting.fault = group->fault;
  return accounting;
}

std::optional<ChannelAccounting> Gpu::Channel(ChannelKey key) const {
  const engine::Channel* channel = state_->FindChannel(key);
  if (channel == nullptr) {
    return std::nullopt;
  }
  ChannelAccounting accounting;
  accounting.gp_get = channel->gp_get;
  accounting.gp_put = channel->gp_put;
  accounting.kernels = channel->kernels;
  accounting.copied_bytes = channel->copied_bytes;
  accounting.ignored_methods = channel->ignored_methods;
  accounting.waiting = channel->wait.has_value();
  accounting.disabled = channel->disabled;
  accounting.stopped = channel->stopped;
  return accounting;
}

RunlistAccounting Gpu::Runlist(RunlistId id) const {
  const auto at = state_->runlists.find(id);
  return at == state_->runlists.end() ? RunlistAccounting{} : at->second.Accounting();
}

std::vector<Start> Gpu::Starts(std::uint64_t from) const {
  const std::deque<Start>& log = state_->shared.log;
  const auto begin = std::ranges::lower_bound(log, from, {}, &Start::number);
  return {begin, log.end()};
}

std::vector<Residence> Gpu::Residences(std::uint64_t from) const {
  const std::deque<Residence>& log = state_->shared.residence_log;
  const auto begin = std::ranges::lower_bound(log, from, {}, &Residence::number);
  return {begin, log.end()};
}

std::uint64_t Gpu::NextResidence() const {
  return state_->shared.residences;
}

}  // namespace cgpu::sim::engine
