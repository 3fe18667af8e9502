#include "sim/gpu/engines.h"

#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "sim/gpu/guarded.h"

namespace cgpu::sim {
namespace {

using engine::Duration;
using engine::Time;

constexpr Duration kMicrosecond = 1000;
constexpr Duration kMillisecond = 1000 * kMicrosecond;
constexpr Duration kBusyLook = 50 * kMicrosecond;
constexpr Duration kIdleLook = kMillisecond;
constexpr Duration kStaysBusy = 5 * kMillisecond;
// NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES. ctrl2080perf.h says that 72 samples take
// ten seconds. On an H200, counting 1/72 of ten seconds for each made a GPU that was full 77.3 %
// busy (docs/hardware/h200-580.159.04.md): one took 180 ms.
constexpr Duration kSample = 180'000'000;

Time Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Time>(now.tv_sec) * 1'000'000'000U + static_cast<Time>(now.tv_nsec);
}

engine::Costs CostsOf(const GpuOptions& options) {
  engine::Costs costs;
  costs.context_switch_ns = options.context_switch_us * kMicrosecond;
  costs.rm_preempt_ns = options.preempt_us * kMicrosecond;
  costs.bytes_per_us = options.copy_gbps * 1000;
  costs.slice_effect = options.slice_effect;
  costs.disable_effect = options.disable_effect;
  return costs;
}

}  // namespace

Engines::Engines(int socket, const wire::Shared& shared, const GpuOptions& options)
    : socket_(socket),
      shared_(&shared),
      costs_(CostsOf(options)),
      memory_(socket),
      event_buffers_(
          memory_, [this](engine::GroupKey group) { return OwnerOf(group); },
          [this](std::uint32_t gpu) -> const engine::Gpu* {
            const auto at = gpus_.find(gpu);
            return at == gpus_.end() ? nullptr : at->second.engine.get();
          }) {}

void Engines::Run() {
  (void)prctl(PR_SET_TIMERSLACK, 1);
  if (const Result<> guarded = InstallGuards(); !guarded.ok()) {
    std::fprintf(stderr, "%s\n", FormatError(guarded.error()).c_str());
    _exit(1);
  }
  while (true) {
    (void)Advance(Now());
    Drain();
    Look();
    const Time now = Now();
    const bool done = Advance(now);
    event_buffers_.Write(now);
    TellDone();
    if (done && !memory_.HasPostponed()) {
      Sleep(Rest(now));
    }
  }
}

// Looks for new work in memory, then takes the messages that wait. The work may rest on calls that
// were answered before, so their messages are handled before it runs.
void Engines::Look() {
  if (!AnyScheduled()) {
    return;
  }
  bool found = false;
  for (auto& [index, gpu] : gpus_) {
    found = gpu.engine->Poll() || found;
  }
  if (found) {
    last_work_ = Now();
    if (next_sample_ == 0) {
      next_sample_ = last_work_ + kSample;
    }
    Drain();
  }
}

void Engines::Drain() {
  const std::uint64_t counted = shared_->sent.load(std::memory_order_acquire);
  while (true) {
    if (auto postponed = memory_.NextPostponed()) {
      Take(*postponed);
      continue;
    }
    if (memory_.Received() >= counted) {
      return;
    }
    std::optional<Message> message = memory_.Receive(-1);
    if (message && !memory_.Take(*message)) {
      Take(*message);
    }
  }
}

void Engines::Take(Message& message) {
  if (const auto order = wire::As<wire::Order>(message.text)) {
    TakeOrder(*order);
  } else if (const auto channel = wire::As<wire::AddChannel>(message.text)) {
    AddChannel(*channel);
  } else if (const auto gone = wire::As<wire::RemoveChannel>(message.text)) {
    const auto node = channels_.extract(gone->key);
    engine::Gpu* const gpu = node.empty() ? nullptr : GpuOf(node.mapped().group);
    if (gpu != nullptr) {
      gpu->RemoveChannel(gone->key);
    }
  } else if (const auto group = wire::As<wire::AddGroup>(message.text)) {
    AddGroup(*group);
  } else if (const auto ended = wire::As<wire::RemoveGroup>(message.text)) {
    if (engine::Gpu* const gpu = GpuOf(ended->key)) {
      gpu->RemoveGroup(ended->key);
      gpus_.at(groups_.at(ended->key).gpu).sampled.erase(ended->key);
      groups_.erase(ended->key);
    }
    if (groups_.empty()) {
      next_sample_ = 0;  // nobody is left whom it could be of
    }
  } else if (const auto slice = wire::As<wire::SetTimeslice>(message.text)) {
    if (engine::Gpu* const gpu = GpuOf(slice->key)) {
      gpu->SetTimeslice(slice->key, slice->value);
    }
  } else if (const auto level = wire::As<wire::SetInterleave>(message.text)) {
    if (engine::Gpu* const gpu = GpuOf(level->key)) {
      gpu->SetInterleave(level->key, static_cast<engine::Interleave>(level->value));
    }
  } else if (const auto buffer = wire::As<wire::EventBuffer>(message.text)) {
    event_buffers_.Set(*buffer);
  } else if (const auto removed = wire::As<wire::RemoveEventBuffer>(message.text)) {
    event_buffers_.Remove(removed->key);
  } else if (const auto ask = wire::As<wire::AskAccounting>(message.text)) {
    SendAccounting(*ask);
  }
}

engine::Gpu* Engines::GpuOf(engine::GroupKey group) {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : gpus_.at(found->second.gpu).engine.get();
}

std::optional<EventBuffers::Owner> Engines::OwnerOf(engine::GroupKey group) const {
  const auto found = groups_.find(group);
  const auto channel = std::find_if(channels_.begin(), channels_.end(),
                                    [group](const auto& one) { return one.second.group == group; });
  if (found == groups_.end() || channel == channels_.end()) {
    return std::nullopt;
  }
  return EventBuffers::Owner{found->second.pid, found->second.user, channel->second.id};
}

void Engines::AddGroup(const wire::AddGroup& group) {
  Gpu& gpu = gpus_[group.gpu];
  if (gpu.engine == nullptr) {
    gpu.engine = std::make_unique<engine::Gpu>(costs_, memory_, *this, Now());
  }
  groups_[group.key] = Group{group.gpu, group.pid, group.user};
  gpu.runlists[group.runlist] = true;
  gpu.engine->AddGroup(group.key, group.runlist);
  if (group.timeslice_us != 0) {
    gpu.engine->SetTimeslice(group.key, group.timeslice_us);
  }
  if (group.interleave != 0) {
    gpu.engine->SetInterleave(group.key, static_cast<engine::Interleave>(group.interleave));
  }
}

void Engines::AddChannel(const wire::AddChannel& message) {
  const auto group = groups_.find(message.group);
  if (group == groups_.end()) {
    return;
  }
  Channel& channel = channels_[message.key];
  channel.gpu = group->second.gpu;
  channel.group = message.group;
  channel.errors = message.errors;
  channel.id = static_cast<std::uint32_t>(message.id);
  engine::ChannelPlace place;
  place.space = message.space;
  place.gpfifo_address = message.gpfifo;
  place.gpfifo_entries = message.entries;
  place.userd_block = message.userd;
  place.userd_offset = message.userd_offset;
  gpus_.at(channel.gpu).engine->AddChannel(message.key, message.group, place);
}

void Engines::TakeOrder(const wire::Order& order) {
  Time at = Apply(order);
  if (order.ticket != 0) {
    // All orders before it, too: of some, only the last has a ticket.
    for (const Pending& earlier : pending_) {
      at = earlier.ticket == 0 ? std::max(at, earlier.at) : at;
    }
    std::erase_if(pending_, [](const Pending& earlier) { return earlier.ticket == 0; });
  }
  pending_.push_back({order.ticket, at});
}

Time Engines::Apply(const wire::Order& order) {
  using What = wire::Order::What;
  const std::vector<std::uint64_t> keys(order.keys,
                                        order.keys + std::min(order.count, wire::Order::kMost));
  Time done = 0;
  if (order.what == What::kPreempt) {
    for (const std::uint64_t key : keys) {
      engine::Gpu* const gpu = GpuOf(key);
      done = gpu == nullptr ? done : std::max(done, gpu->Preempt(key));
    }
    return done;
  }
  std::map<std::uint32_t, std::vector<std::uint64_t>> by_gpu;
  for (const std::uint64_t key : keys) {
    if (const auto channel = channels_.find(key); channel != channels_.end()) {
      by_gpu[channel->second.gpu].push_back(key);
    }
  }
  for (const auto& [index, channels] : by_gpu) {
    engine::Gpu& gpu = *gpus_.at(index).engine;
    if (order.what == What::kDisable || order.what == What::kEnable) {
      done = std::max(
          done, gpu.Disable(channels, order.what == What::kDisable, order.only_scheduling != 0));
      continue;
    }
    if (order.what == What::kRestart) {
      done = std::max(done, gpu.Restart(channels.front()));
      continue;
    }
    for (const std::uint64_t key : channels) {
      const bool on = order.what == What::kSchedule;
      channels_.at(key).scheduled = on;
      done =
          std::max(done, order.what == What::kStop ? gpu.Stop(key) : gpu.ScheduleChannel(key, on));
    }
  }
  return done;
}

bool Engines::Advance(Time now) {
  bool done = true;
  while (done && next_sample_ != 0 && next_sample_ <= now) {
    done = AdvanceGpus(next_sample_);
    if (done) {
      TakeSample(next_sample_);
    }
  }
  done = done && AdvanceGpus(now);
  TellFaults();
  return done;
}

bool Engines::AdvanceGpus(Time now) {
  bool done = true;
  for (auto& [index, gpu] : gpus_) {
    done = gpu.engine->Advance(now) && done;
  }
  return done;
}

// One of each group that ran; none when nothing did, and then no more until something does.
// Switches count as use, each for the group that comes: an H200 was as busy with two programs as
// with one.
void Engines::TakeSample(Time end) {
  bool any = false;
  for (const auto& [group, owner] : groups_) {
    Gpu& gpu = gpus_.at(owner.gpu);
    const auto accounting = gpu.engine->Group(group);
    Duration& before = gpu.sampled[group];
    if (!accounting) {
      continue;
    }
    const Duration used = accounting->gpu_time_ns + accounting->switches * costs_.context_switch_ns;
    if (used == before) {
      continue;
    }
    wire::Sample sample;
    sample.gpu = owner.gpu;
    sample.end_ns = end;
    sample.length_ns = kSample;
    sample.group = group;
    sample.busy_ns = used - before;
    sample.active = accounting->running ? 1 : 0;
    before = used;
    memory_.Send(wire::Bytes(sample));
    any = true;
  }
  next_sample_ = any ? end + kSample : 0;
}

void Engines::OnFault(engine::GroupKey group, engine::ChannelKey channel, engine::Fault fault,
                      std::uint64_t address, Time at) {
  faults_.push_back({group, channel, fault, address, at});
}

// No OS event of work is simulated yet.
void Engines::OnInterrupt(engine::RunlistId /*runlist*/, engine::ChannelKey /*channel*/,
                          Time /*at*/) {}

// The error notifiers of all channels of the group, as RM's recovery of a TSG writes them
// (src/nvidia/src/kernel/gpu/rc/kernel_rc_notification.c): NvNotification is a time, info32, info16
// and a status, which programs watch.
void Engines::TellFaults() {
  std::vector<Happened> happened;
  happened.swap(faults_);
  for (const Happened& fault : happened) {
    const std::uint32_t words[4] = {static_cast<std::uint32_t>(fault.at),
                                    static_cast<std::uint32_t>(fault.at >> 32),
                                    static_cast<std::uint32_t>(fault.fault), 0xFFFF0000U};
    for (const auto& [key, channel] : channels_) {
      if (channel.group != fault.group || channel.errors == 0) {
        continue;
      }
      for (std::uint64_t i = 0; i < std::size(words); ++i) {
        (void)memory_.WriteBlock(channel.errors, i * sizeof(words[0]),
                                 std::as_bytes(std::span(&words[i], 1)));
      }
    }
    wire::Fault message;
    message.code = static_cast<std::uint32_t>(fault.fault);
    message.group = fault.group;
    message.channel = fault.channel;
    message.address = fault.address;
    memory_.Send(wire::Bytes(message));
  }
}

void Engines::TellDone() {
  Time reached = engine::kNever;
  for (const auto& [index, gpu] : gpus_) {
    reached = std::min(reached, gpu.engine->Now());
  }
  std::erase_if(pending_, [&](const Pending& pending) {
    if (pending.at > reached) {
      return false;
    }
    if (pending.ticket != 0) {
      memory_.Send(wire::Bytes(wire::Done{.key = pending.ticket}));
    }
    return true;
  });
}

bool Engines::AnyScheduled() const {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& channel) { return channel.second.scheduled; });
}

std::optional<Duration> Engines::Rest(Time now) {
  std::optional<Time> next;
  const auto until = [&next](Time at) { next = next ? std::min(*next, at) : at; };
  bool working = false;
  for (const auto& [index, gpu] : gpus_) {
    const auto event = gpu.engine->NextEvent();
    working = working || event.has_value() || gpu.engine->Waits();
    if (event) {
      until(*event);
    }
  }
  for (const Pending& pending : pending_) {
    until(pending.at);
  }
  if (working) {
    last_work_ = now;
  }
  if (AnyScheduled()) {
    until(now + (now < last_work_ + kStaysBusy ? kBusyLook : kIdleLook));
  }
  if (next_sample_ != 0) {
    until(next_sample_);
  }
  if (const auto write = event_buffers_.Due()) {
    until(*write);
  }
  if (!next) {
    return std::nullopt;
  }
  const Time clock = Now();
  return *next > clock ? *next - clock : 0;
}

void Engines::Sleep(std::optional<Duration> rest) const {
  constexpr Duration kSecond = 1'000'000'000;
  pollfd ready{socket_, POLLIN, 0};
  const timespec time{static_cast<time_t>(rest.value_or(0) / kSecond),
                      static_cast<long>(rest.value_or(0) % kSecond)};
  const int woken = ppoll(&ready, 1, rest ? &time : nullptr, nullptr);
  if (woken > 0 && (ready.revents & POLLHUP) != 0) {
    _exit(0);  // the node is gone
  }
}

}  // namespace cgpu::sim
