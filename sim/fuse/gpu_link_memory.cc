// Memory for the engines: which bytes an address leads to, and where a processor has them mapped.
#include "sim/fuse/gpu_link.h"

namespace cgpu::sim {
namespace {

template <class Tell>
class WhenGone {
 public:
  explicit WhenGone(Tell tell) : tell_(std::move(tell)) {}
  WhenGone(const WhenGone&) = delete;
  WhenGone& operator=(const WhenGone&) = delete;
  ~WhenGone() { tell_(); }

 private:
  const Tell tell_;
};

bool HasBytes(const Block& block) {
  return !block.registers && block.shared_data_of < 0;
}

}  // namespace

void GpuLink::AnswerTranslate(const wire::Translate& ask) {
  wire::Place answer;
  (void)driver_->Translate(ask.key, ask.value, [&](const GpuPlace& place) {
    if (HasBytes(*place.block) && Give(*place.block)) {
      answer.found = 1;
      answer.start = place.start;
      answer.length = place.length;
      answer.block = place.block->id;
      answer.offset = place.offset;
    }
  });
  Send(answer);
}

void GpuLink::AnswerFind(const wire::FindBlock& ask) {
  std::weak_ptr<Block> block;
  {
    const MutexLock lock(mutex_);
    const auto found = blocks_.find(ask.key);
    if (found != blocks_.end()) {
      block = found->second;
    }
  }
  wire::Place answer;
  driver_->WithBlock(block, [&](Block& held) {
    if (HasBytes(held) && Give(held)) {
      answer.found = 1;
      answer.length = held.length;
      answer.block = held.id;
    }
  });
  Send(answer);
}

// Under the driver's lock, so that nobody maps or frees the block meanwhile.
bool GpuLink::Give(Block& block) {
  if (block.given != nullptr) {
    return true;
  }
  const std::shared_ptr<Pages> pages = pages_(block);
  if (pages == nullptr) {
    return false;
  }
  const rm::NvU64 id = block.id;
  {
    const MutexLock lock(mutex_);
    given_.insert(id);
    wire::Block message;
    message.block = id;
    message.length = block.length;
    message.base = pages->Base();
    Enqueue(wire::Bytes(message), pages->File());
    const auto [first, last] = by_block_.equal_range(id);
    for (auto at = first; at != last; ++at) {
      TellMapped(at->second, files_.at(at->second));
    }
  }
  const auto tell = [this, id] { Gone(id); };
  block.given = std::make_shared<WhenGone<decltype(tell)>>(tell);
  return true;
}

void GpuLink::Gone(rm::NvU64 block) {
  const MutexLock lock(mutex_);
  given_.erase(block);
  blocks_.erase(block);
  Enqueue(wire::Bytes(wire::DropBlock{.key = block}), -1);
}

void GpuLink::TellMapped(Ino ino, const File& file) {
  if (!file.mapped) {
    return;
  }
  wire::Mapped message;
  message.block = file.block;
  message.ino = ino;
  message.offset = file.context.offset;
  message.length = file.context.length;
  Enqueue(wire::Bytes(message), file.path.get());
}

bool GpuLink::UsesOthers(rm::NvU64 block) {
  const MutexLock lock(mutex_);
  return given_.contains(block) && by_block_.contains(block);
}

void GpuLink::Settle() {
  constexpr rm::NvU64 kTimeoutUs = 1000000;
  GpuTicket ticket = 0;
  {
    const MutexLock lock(mutex_);
    ticket = next_ticket_++;
    pending_.insert(ticket);
    wire::Order nothing;
    nothing.what = wire::Order::What::kEnable;
    nothing.ticket = ticket;
    Enqueue(wire::Bytes(nothing), -1);
  }
  (void)Await(ticket, kTimeoutUs);
}

void GpuLink::Mapped(Ino ino, UniqueFd path, const MapContext& context, const Block& block) {
  if (!HasBytes(block)) {
    return;
  }
  const MutexLock lock(mutex_);
  if (!alive_ || files_.contains(ino)) {
    return;
  }
  File file;
  file.path = std::move(path);
  file.context = context;
  file.block = block.id;
  by_block_.emplace(block.id, ino);
  const File& kept = files_.emplace(ino, std::move(file)).first->second;
  if (given_.contains(block.id)) {
    TellMapped(ino, kept);
  }
}

void GpuLink::Unmapped(Ino ino) {
  const MutexLock lock(mutex_);
  const auto file = files_.find(ino);
  if (file == files_.end()) {
    return;
  }
  file->second.mapped = false;
  Enqueue(wire::Bytes(wire::Unmapped{.key = ino}), -1);
  DropIfUnused(file);
}

std::optional<MapContext> GpuLink::ContextOf(Ino ino) {
  const MutexLock lock(mutex_);
  const auto file = files_.find(ino);
  return file == files_.end() ? std::nullopt : std::optional(file->second.context);
}

void GpuLink::EngineOpened(Ino ino) {
  const MutexLock lock(mutex_);
  if (const auto file = files_.find(ino); file != files_.end()) {
    ++file->second.opened;
  }
}

void GpuLink::EngineReleased(Ino ino) {
  const MutexLock lock(mutex_);
  if (const auto file = files_.find(ino); file != files_.end() && file->second.opened > 0) {
    --file->second.opened;
    DropIfUnused(file);
  }
}

void GpuLink::DropIfUnused(std::map<Ino, File>::iterator file) {
  if (file->second.mapped || file->second.opened > 0) {
    return;
  }
  const auto [first, last] = by_block_.equal_range(file->second.block);
  for (auto at = first; at != last; ++at) {
    if (at->second == file->first) {
      by_block_.erase(at);
      break;
    }
  }
  files_.erase(file);
}

}  // namespace cgpu::sim
