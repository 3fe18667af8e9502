// The parts of Scheduler that set interleave levels and time slices.
#include <algorithm>

#include "shim/scheduler.h"

namespace cgpu::shim {

// Applies interleave levels. A group that another thread is freeing has none. A level that could
// not be set is tried again when something is scheduled, and after a time.
void Scheduler::ApplyLevels(std::size_t index, Gpu& gpu) {
  gpu.unleveled = false;
  for (const ledger::ChannelInfo& channel : gpu.channels) {
    const bool wanted = gpu.order.high && gpu.levels;
    if (channel.group_handle == 0 || gpu.raised.contains(channel.group) == wanted) {
      continue;
    }
    const auto set =
        controls_->SetInterleave(index, channel.group_client, channel.group_handle, wanted);
    if (set.ok() && wanted) {
      gpu.raised.insert(channel.group);
    } else if (set.ok()) {
      gpu.raised.erase(channel.group);
    } else if (wanted && set.error().code == Code::kUnsupported) {
      gpu.levels = false;
    } else {
      gpu.unleveled = true;
    }
  }
}

// Gives a time slice. Adds the group to `without` if that fails.
void Scheduler::GiveSlice(std::size_t index, Gpu& gpu, const ledger::ChannelInfo& channel,
                          std::uint64_t each, std::set<std::uint64_t>& without) {
  const auto given = gpu.slices.find(channel.group);
  const std::uint64_t had = given == gpu.slices.end() ? gpu.standard_us : given->second;
  const std::uint64_t wanted = each == 0 ? gpu.standard_us : each;
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
  gpu.slices[channel.group] = wanted;
  if (gpu.order.trigger != governor::Trigger::kNone) {
    gpu.untriggered.insert(channel.group);
  }
  if (gpu.standard_us == 0) {
    gpu.standard_us = *before;
  }
}

// Chooses resting groups. As many as possible are on, in a ring; the one behind them is first in
// the next turn.
void Scheduler::ChooseResting(Gpu& gpu, const std::set<std::uint64_t>& groups,
                              std::uint64_t now_us) {
  const std::size_t most = governor::MostGroups(gpu.order.slice_us);
  gpu.crowded = gpu.order.slice_us != 0 && groups.size() > most;
  const bool rested = !std::exchange(gpu.resting, {}).empty();
  if (!gpu.crowded || !gpu.order.may_rest || paused_) {
    return;
  }
  const auto from = groups.lower_bound(gpu.first);
  gpu.resting.assign(from, groups.end());
  gpu.resting.insert(gpu.resting.end(), groups.begin(), from);
  gpu.resting.erase(gpu.resting.begin(), gpu.resting.begin() + static_cast<long>(most));
  gpu.turn_us = rested ? gpu.turn_us : now_us + kRestUs;
  StartClock();
}

void Scheduler::ApplySlices(std::size_t index, Gpu& gpu) {
  gpu.undivided = false;
  std::map<std::uint64_t, const ledger::ChannelInfo*> channels;
  std::set<std::uint64_t> groups;
  for (const ledger::ChannelInfo& channel : gpu.channels) {
    channels.emplace(channel.group, &channel);
    groups.insert(channel.group);
  }
  const bool held = !gpu.unruly.empty() || !gpu.resting.empty();
  ChooseResting(gpu, groups, NowUs());
  const std::uint64_t whole = gpu.order.slice_us;
  const std::uint64_t each =
      whole == 0 ? 0 : governor::TurnOf(whole, groups.size() - gpu.resting.size());
  std::set<std::uint64_t> without;
  for (const auto& [group, channel] : channels) {
    const std::uint64_t turns =
        gpu.raised.contains(group) ? std::max<std::uint64_t>(gpu.order.turns, 1) : 1;
    const std::uint64_t turn = std::clamp<std::uint64_t>(each / turns, 1, governor::kMostTurnUs);
    GiveSlice(index, gpu, *channel, each == 0 ? 0 : turn, without);
  }
  gpu.unruly.clear();
  for (const ledger::ChannelInfo& channel : gpu.channels) {
    if (each != 0 && without.contains(channel.group)) {
      gpu.unruly.push_back(channel);
    }
  }
  TakeOffHeld(index, gpu);
  if (held && !gpu.off) {
    PutBack(index, gpu);
  }
  if (gpu.unruly.empty() && !gpu.unleveled) {
    gpu.backoff_us = 0;
  } else if (gpu.backoff_us == 0) {
    gpu.backoff_us = kLeastBackoffUs;
    gpu.again_us = NowUs() + gpu.backoff_us;
    StartClock();
  }
}

// Makes the time slices take effect that were set. Does nothing for a group that is not on the
// GPU's list: AfterSchedule() comes back to it. No group is scheduled while a channel of it is off
// by an order (SwitchOff() says why); one that its owner has taken off, or has not scheduled, does
// not keep the group's time slice as it was. If it fails, the next change tries again.
void Scheduler::TriggerIfNeeded(std::size_t index, Gpu& gpu) {
  if (gpu.untriggered.empty() || paused_) {
    return;
  }
  const governor::Trigger trigger = gpu.order.trigger;
  std::map<std::uint64_t, const ledger::ChannelInfo*> running;  // one channel of each group
  std::set<std::uint64_t> held;
  for (const ledger::ChannelInfo& channel : gpu.channels) {
    if (gpu.scheduled.contains(channel.id)) {
      running.emplace(channel.group, &channel);
    }
    if (gpu.taken.contains(channel.id)) {
      held.insert(channel.group);
    }
  }
  if (trigger == governor::Trigger::kRestart) {
    if (!running.empty() && controls_->Pull(index, *running.begin()->second, trigger).ok()) {
      gpu.untriggered.clear();
    }
    return;
  }
  std::erase_if(gpu.untriggered, [&](std::uint64_t group) {
    const auto one = running.find(group);
    return one == running.end() || trigger == governor::Trigger::kNone ||
           (!held.contains(group) && controls_->Pull(index, *one->second, trigger).ok());
  });
  if (trigger == governor::Trigger::kSchedule) {
    for (const ledger::ChannelInfo& channel : gpu.channels) {
      if (running.contains(channel.group) && !held.contains(channel.group)) {
        gpu.scheduled.insert(channel.id);  // the others of its group, too
      }
    }
  }
}

}  // namespace cgpu::shim
