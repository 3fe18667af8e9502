// The engines' report of their counts.
#include "sim/gpu/engines.h"

namespace cgpu::sim {

void Engines::SendAccounting(const wire::AskAccounting& ask) {
  for (const auto& [group, owner] : groups_) {
    const auto accounting = gpus_.at(owner.gpu).engine->Group(group);
    if (!accounting) {
      continue;
    }
    wire::GroupAccounting message;
    message.running = accounting->running ? 1 : 0;
    message.key = group;
    message.gpu_time_ns = accounting->gpu_time_ns;
    message.switches = accounting->switches;
    message.kernels = accounting->kernels;
    message.copied_bytes = accounting->copied_bytes;
    message.slice_ns = accounting->slice_ns;
    memory_.Send(wire::Bytes(message));
  }
  for (const auto& [key, channel] : channels_) {
    const auto accounting = gpus_.at(channel.gpu).engine->Channel(key);
    if (!accounting) {
      continue;
    }
    wire::ChannelAccounting message;
    message.waiting = accounting->waiting ? 1 : 0;
    message.key = key;
    message.gp_get = accounting->gp_get;
    message.gp_put = accounting->gp_put;
    message.kernels = accounting->kernels;
    message.copied_bytes = accounting->copied_bytes;
    message.ignored_methods = accounting->ignored_methods;
    memory_.Send(wire::Bytes(message));
  }
  for (const auto& [index, gpu] : gpus_) {
    for (const auto& [runlist, used] : gpu.runlists) {
      const engine::RunlistAccounting accounting = gpu.engine->Runlist(runlist);
      wire::RunlistAccounting message;
      message.gpu = index;
      message.runlist = runlist;
      message.busy_ns = accounting.busy_ns;
      message.switching_ns = accounting.switching_ns;
      message.idle_ns = accounting.idle_ns;
      message.switches = accounting.switches;
      message.restarts = accounting.restarts;
      memory_.Send(wire::Bytes(message));
    }
    SendStarts(index, ask.value);
  }
  memory_.Send(wire::Bytes(wire::AccountingEnd{.key = ask.key}));
}

void Engines::SendStarts(std::uint32_t gpu, std::uint64_t from) {
  if (from == engine::kNever) {
    return;  // nobody wants them
  }
  wire::Starts message;
  message.gpu = gpu;
  for (const engine::Start& start : gpus_.at(gpu).engine->Starts(from)) {
    message.starts[message.count++] = {start.number, start.group, start.visible_ns, start.start_ns,
                                       start.switched ? 1U : 0U};
    if (message.count == wire::Starts::kMost) {
      memory_.Send(wire::Bytes(message));
      message.count = 0;
    }
  }
  if (message.count != 0) {
    memory_.Send(wire::Bytes(message));
  }
}

}  // namespace cgpu::sim
