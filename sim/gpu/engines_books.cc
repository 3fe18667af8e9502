// The engines' report of their counts.
#include "sim/gpu/engines.h"

namespace cgpu::sim {

void Engines::SendBooks(const wire::AskBooks& ask) {
  for (const auto& [group, owner] : groups_) {
    const auto books = cards_.at(owner.card).gpu->Group(group);
    if (!books) {
      continue;
    }
    wire::GroupBooks message;
    message.running = books->running ? 1 : 0;
    message.key = group;
    message.gpu_time_ns = books->gpu_time_ns;
    message.switches = books->switches;
    message.kernels = books->kernels;
    message.copied_bytes = books->copied_bytes;
    message.slice_ns = books->slice_ns;
    memory_.Send(wire::Bytes(message));
  }
  for (const auto& [key, channel] : channels_) {
    const auto books = cards_.at(channel.card).gpu->Channel(key);
    if (!books) {
      continue;
    }
    wire::ChannelBooks message;
    message.waiting = books->waiting ? 1 : 0;
    message.key = key;
    message.gp_get = books->gp_get;
    message.gp_put = books->gp_put;
    message.kernels = books->kernels;
    message.copied_bytes = books->copied_bytes;
    message.ignored_methods = books->ignored_methods;
    memory_.Send(wire::Bytes(message));
  }
  for (const auto& [index, card] : cards_) {
    for (const auto& [runlist, used] : card.runlists) {
      const engine::RunlistBooks books = card.gpu->Runlist(runlist);
      wire::RunlistBooks message;
      message.card = index;
      message.runlist = runlist;
      message.busy_ns = books.busy_ns;
      message.switching_ns = books.switching_ns;
      message.idle_ns = books.idle_ns;
      message.switches = books.switches;
      memory_.Send(wire::Bytes(message));
    }
    SendStarts(index, ask.value);
  }
  memory_.Send(wire::Bytes(wire::BooksEnd{.key = ask.key}));
}

void Engines::SendStarts(std::uint32_t card, std::uint64_t from) {
  if (from == engine::kNever) {
    return;  // nobody wants them
  }
  wire::Starts message;
  message.card = card;
  for (const engine::Start& start : cards_.at(card).gpu->Starts(from)) {
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
