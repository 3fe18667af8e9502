// The driver's messages to the engines about groups, channels and address spaces.
#include <algorithm>
#include <array>
#include <utility>

#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

std::uint64_t VersionOf(const DriverModel::KnownSpace& space) {
  const auto tables = space.tables.lock();
  const auto vaspace = space.vaspace.lock();
  return (tables == nullptr ? 0 : tables->Version()) + (vaspace == nullptr ? 0 : vaspace->version);
}

std::vector<GpuKey> KeysOf(std::span<Object* const> channels) {
  std::vector<GpuKey> keys;
  for (const Object* channel : channels) {
    if (channel->on_gpu != nullptr) {
      keys.push_back(channel->on_gpu->Key());
    }
  }
  return keys;
}

}  // namespace

Group& DriverModel::GroupOf(Client& client, Object& object) {
  return object.group != nullptr ? *object.group : *client.objects.at(object.parent).group;
}

rm::NvU64 DriverModel::NumberOf(const SpaceOf& space, int gpu) {
  const auto tables = space.tables.lock();
  if (tables == nullptr) {
    return 0;
  }
  if (tables->Number() == 0) {
    tables->SetNumber(next_space_);
    KnownSpace known;
    known.tables = space.tables;
    known.vaspace = space.vaspace;
    known.gpu = gpu;
    known.told = VersionOf(known);
    spaces_.emplace(next_space_++, known);
  }
  return tables->Number();
}

// The engines hear of a channel when it is first scheduled: before, it can do nothing.
void DriverModel::PutOnGpu(Client& client, Object& channel) {
  Group& group = GroupOf(client, channel);
  if (group.on_gpu == nullptr) {
    GpuGroupSetup setup;
    setup.gpu = group.gpu;
    setup.key = next_key_++;
    setup.engine_type = group.runlist;
    setup.timeslice_us = group.timeslice_us;
    setup.interleave = group.interleave;
    setup.pid = client.identity.tgid;
    setup.user = client.identity.euid;
    engines_->AddGroup(setup);
    group.on_gpu = std::make_shared<OnGpu>(*engines_, OnGpu::Kind::kGroup, setup.key);
  }
  GpuChannelSetup setup;
  setup.gpu = channel.gpu;
  setup.key = next_key_++;
  setup.group = group.on_gpu->Key();
  setup.space = NumberOf(channel.space, channel.gpu);
  setup.gpfifo = channel.setup.gpfifo;
  setup.entries = channel.setup.entries;
  setup.id = channel.channel_id->Number();
  setup.userd = channel.setup.userd;
  setup.userd_offset = channel.setup.userd_offset;
  setup.errors = channel.setup.errors;
  engines_->AddChannel(setup);
  channel.on_gpu = std::make_shared<OnGpu>(*engines_, OnGpu::Kind::kChannel, setup.key);
  if (channel.disabled) {
    const GpuKey key = setup.key;
    (void)engines_->Disable(std::span(&key, 1), true, true);
  }
}

void DriverModel::NoteUse(const std::weak_ptr<Block>& memory) {
  const std::weak_ptr<Block> none;
  const bool named = memory.owner_before(none) || none.owner_before(memory);
  stray_writes_ += named && memory.expired() ? 1 : 0;
}

void DriverModel::SetScheduled(Client& client, Object& channel, bool on) {
  channel.scheduled = on;
  if (on) {
    NoteUse(channel.setup.userd);
  }
  // A ring without entries or without its page of pointers can hold no work.
  const bool may_work = channel.setup.entries != 0 && !channel.setup.userd.expired();
  const bool runs = !channel.stopped && !channel.hung;
  if (on && engines_ != nullptr && channel.on_gpu == nullptr && runs && may_work) {
    PutOnGpu(client, channel);
  }
}

// Makes a channel never run again. Nobody is told.
void DriverModel::Hang(Object& channel) {
  channel.hung = true;
  if (channel.on_gpu != nullptr && engines_ != nullptr) {
    (void)engines_->Stop(channel.on_gpu->Key());
  }
}

// Hangs channels that are scheduled together, if one of them is disabled.
void DriverModel::HangRescheduled(std::span<Object* const> channels) {
  const auto disabled = [](const Object* channel) { return channel->disabled; };
  if (hang_rules_.rescheduled && std::ranges::any_of(channels, disabled)) {
    std::ranges::for_each(channels, [this](Object* channel) { Hang(*channel); });
  }
}

void DriverModel::HangListed(std::span<const Owned> channels, bool off) {
  const bool mixed =
      std::ranges::any_of(channels, [](const Owned& one) { return !one.second->scheduled; });
  const bool copies = std::ranges::any_of(channels, [](const Owned& one) {
    return GroupOf(*one.first, *one.second).runlist != rm::NV2080_ENGINE_TYPE_GRAPHICS;
  });
  for (const auto& [client, channel] : channels) {
    if ((hang_rules_.mixed && mixed) || (hang_rules_.copies && copies) ||
        (hang_rules_.unscheduled && off && !channel->scheduled) ||
        (hang_rules_.enabled && !off && !channel->disabled)) {
      Hang(*channel);
    }
  }
}

GpuTicket DriverModel::ScheduleChannel(Client& client, Object& channel, bool on) {
  if (on) {
    HangRescheduled(std::array<Object*, 1>{&channel});
  }
  SetScheduled(client, channel, on);
  const std::vector<GpuKey> keys = KeysOf(std::array<Object*, 1>{&channel});
  return keys.empty() || engines_ == nullptr ? 0 : engines_->Schedule(keys, on);
}

GpuTicket DriverModel::ScheduleGroup(Client& client, Object& group, bool on) {
  std::vector<Owned> found;
  std::vector<Object*> channels;
  const auto take = [&](Client& owner, Object& object) {
    if (object.kind == ObjectKind::kChannel && &GroupOf(owner, object) == group.group.get()) {
      found.emplace_back(&owner, &object);
      channels.push_back(&object);
    }
  };
  if (group.group.use_count() == 1) {
    for (const rm::NvHandle child : group.children) {
      take(client, client.objects.at(child));
    }
  } else {  // it was duplicated: its channels may be any client's
    for (auto& entry : clients_) {
      for (auto& [handle, object] : entry.second.objects) {
        take(entry.second, object);
      }
    }
  }
  if (on) {
    HangRescheduled(channels);
  }
  for (const auto& [owner, channel] : found) {
    SetScheduled(*owner, *channel, on);
  }
  const std::vector<GpuKey> keys = KeysOf(channels);
  return keys.empty() || engines_ == nullptr ? 0 : engines_->Schedule(keys, on);
}

GpuTicket DriverModel::Disable(std::span<const Owned> channels, bool off, bool only_scheduling) {
  HangListed(channels, off);
  std::vector<Object*> objects;
  for (const auto& [client, channel] : channels) {
    channel->disabled = off;
    objects.push_back(channel);
  }
  const std::vector<GpuKey> keys = KeysOf(objects);
  return keys.empty() || engines_ == nullptr ? 0 : engines_->Disable(keys, off, only_scheduling);
}

GpuTicket DriverModel::Stop(Object& channel) {
  channel.stopped = true;
  channel.scheduled = false;
  return channel.on_gpu == nullptr || engines_ == nullptr ? 0
                                                          : engines_->Stop(channel.on_gpu->Key());
}

GpuTicket DriverModel::Restart(const Object& channel) {
  return channel.on_gpu == nullptr || engines_ == nullptr
             ? 0
             : engines_->Restart(channel.on_gpu->Key());
}

GpuTicket DriverModel::Preempt(Group& group) {
  ++group.preemptions;
  return group.on_gpu == nullptr || engines_ == nullptr ? 0
                                                        : engines_->Preempt(group.on_gpu->Key());
}

void DriverModel::SetTimeslice(Group& group, rm::NvU64 us) {
  group.timeslice_us = us;
  if (group.on_gpu != nullptr) {
    engines_->SetTimeslice(group.on_gpu->Key(), us);
  }
}

void DriverModel::SetInterleave(Group& group, rm::NvU32 level) {
  group.interleave = level;
  if (group.on_gpu != nullptr) {
    engines_->SetInterleave(group.on_gpu->Key(), level);
  }
}

const DriverModel::KnownSpace* DriverModel::FindSpace(rm::NvU64 number) const {
  const auto found = spaces_.find(number);
  return found == spaces_.end() ? nullptr : &found->second;
}

void DriverModel::TellOfSpaces() {
  for (auto space = spaces_.begin(); space != spaces_.end();) {
    const bool gone = space->second.tables.expired();
    const std::uint64_t version = gone ? 0 : VersionOf(space->second);
    if (gone || version != space->second.told) {
      engines_->Invalidate(space->first);
      space->second.told = version;
    }
    space = gone ? spaces_.erase(space) : std::next(space);
  }
}

}  // namespace cgpu::sim
