#include "sim/gpu/memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "sim/gpu/guarded.h"

namespace cgpu::sim {
namespace {

constexpr std::size_t kMostGone = 100000;

bool ReadAll(int file, std::uint64_t at, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t n = pread(file, to.data(), to.size(), static_cast<off_t>(at));
    if (n <= 0) {
      return false;
    }
    at += static_cast<std::uint64_t>(n);
    to = to.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

bool WriteAllAt(int file, std::uint64_t at, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t n = pwrite(file, from.data(), from.size(), static_cast<off_t>(at));
    if (n <= 0) {
      return false;
    }
    at += static_cast<std::uint64_t>(n);
    from = from.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

void Memory::Send(std::string_view bytes) const {
  if (!SendMessage(socket_, bytes).ok()) {
    _exit(0);  // the node is gone
  }
}

std::optional<Message> Memory::NextPostponed() {
  if (postponed_.empty()) {
    return std::nullopt;
  }
  Message message = std::move(postponed_.front());
  postponed_.pop_front();
  return message;
}

std::optional<Message> Memory::Receive(int timeout_ms) {
  pollfd ready{socket_, POLLIN, 0};
  if (poll(&ready, 1, timeout_ms) <= 0) {
    return std::nullopt;
  }
  Result<Message> message = ReceiveMessage(socket_, 0);
  if (!message.ok()) {
    _exit(0);  // the node is gone
  }
  ++received_;
  return std::move(message).value();
}

wire::Place Memory::Ask(std::string_view question) {
  Send(question);
  while (true) {
    std::optional<Message> message = Receive(-1);
    if (!message) {
      continue;
    }
    if (const auto place = wire::As<wire::Place>(message->text)) {
      return *place;
    }
    if (!Take(*message)) {
      postponed_.push_back(std::move(*message));
    }
  }
}

bool Memory::Take(Message& message) {
  if (const auto block = wire::As<wire::Block>(message.text)) {
    Backing& backing = blocks_[block->block];
    backing.length = block->length;
    backing.base = block->base;
    backing.file = std::move(message.fd);
  } else if (const auto dropped = wire::As<wire::DropBlock>(message.text)) {
    const auto found = blocks_.find(dropped->key);
    if (found != blocks_.end()) {
      for (Mapping& mapping : found->second.mappings) {
        Leave(mapping);
        inodes_.erase(mapping.ino);
      }
      blocks_.erase(found);
    }
  } else if (const auto mapped = wire::As<wire::Mapped>(message.text)) {
    const auto found = blocks_.find(mapped->block);
    if (found != blocks_.end() && message.fd.valid()) {
      for (const Mapping& other : found->second.mappings) {
        if (other.base != nullptr) {
          (void)msync(other.base, other.length, MS_SYNC);  // the new one reads the block
        }
      }
      Mapping mapping;
      mapping.ino = mapped->ino;
      mapping.offset = mapped->offset;
      mapping.length = mapped->length;
      mapping.path = std::move(message.fd);
      found->second.mappings.push_back(std::move(mapping));
      inodes_[mapped->ino] = mapped->block;
    }
  } else if (const auto unmapped = wire::As<wire::Unmapped>(message.text)) {
    Forget(unmapped->key);
  } else if (const auto changed = wire::As<wire::Invalidate>(message.text)) {
    spaces_.erase(changed->key);
  } else {
    return false;
  }
  return true;
}

void Memory::Forget(std::uint64_t ino) {
  const auto node = inodes_.extract(ino);
  const auto block = node.empty() ? blocks_.end() : blocks_.find(node.mapped());
  if (block == blocks_.end()) {
    return;
  }
  std::erase_if(block->second.mappings, [ino](Mapping& mapping) {
    if (mapping.ino != ino) {
      return false;
    }
    Leave(mapping);
    return true;
  });
}

// The descriptor is O_PATH: this is the open that the driver's process knows as ours.
void Memory::Use(Mapping& mapping) {
  if (mapping.base != nullptr || mapping.failed) {
    return;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(mapping.path.get());
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  void* const base = file.valid() ? mmap(nullptr, mapping.length, PROT_READ | PROT_WRITE,
                                         MAP_SHARED, file.get(), 0)
                                  : MAP_FAILED;
  mapping.failed = base == MAP_FAILED;
  mapping.base = mapping.failed ? nullptr : static_cast<std::byte*>(base);
}

void Memory::Leave(Mapping& mapping) {
  if (mapping.base != nullptr) {
    (void)munmap(mapping.base, mapping.length);  // writes back what is dirty
    mapping.base = nullptr;
  }
}

bool Memory::Covers(const Mapping& mapping, std::uint64_t offset) {
  return offset >= mapping.offset && offset - mapping.offset < mapping.length && !mapping.failed;
}

std::size_t Memory::Stretch(const Backing& backing, std::uint64_t offset, std::size_t length) {
  for (const Mapping& mapping : backing.mappings) {
    if (Covers(mapping, offset)) {
      length = std::min<std::uint64_t>(length, mapping.offset + mapping.length - offset);
    } else if (mapping.offset > offset) {
      length = std::min<std::uint64_t>(length, mapping.offset - offset);
    }
  }
  return length;
}

Memory::Backing* Memory::FindBacking(engine::BlockId block) {
  const auto found = blocks_.find(block);
  if (found != blocks_.end()) {
    return &found->second;
  }
  if (block == 0 || gone_.contains(block)) {
    return nullptr;
  }
  if (Ask(wire::Bytes(wire::FindBlock{.key = block})).found == 0) {
    if (gone_.size() >= kMostGone) {
      gone_.clear();
    }
    gone_.insert(block);
    return nullptr;
  }
  const auto given = blocks_.find(block);
  return given == blocks_.end() ? nullptr : &given->second;
}

bool Memory::ReadBlock(engine::BlockId block, std::uint64_t offset, std::span<std::byte> to) {
  Backing* const backing = FindBacking(block);
  if (backing == nullptr || offset > backing->length || to.size() > backing->length - offset) {
    return false;
  }
  while (!to.empty()) {
    const std::size_t length = Stretch(*backing, offset, to.size());
    const auto part = to.first(length);
    bool done = false;
    for (Mapping& mapping : backing->mappings) {
      if (!done && Covers(mapping, offset)) {
        Use(mapping);
        done = !mapping.failed && GuardedLoad(mapping.base + (offset - mapping.offset), part);
      }
    }
    if (!done && !ReadAll(backing->file.get(), backing->base + offset, part)) {
      return false;
    }
    offset += length;
    to = to.subspan(length);
  }
  return true;
}

bool Memory::WriteBlock(engine::BlockId block, std::uint64_t offset,
                        std::span<const std::byte> from) {
  Backing* const backing = FindBacking(block);
  if (backing == nullptr || offset > backing->length || from.size() > backing->length - offset) {
    return false;
  }
  while (!from.empty()) {
    const std::size_t length = Stretch(*backing, offset, from.size());
    const auto part = from.first(length);
    bool done = false;
    for (Mapping& mapping : backing->mappings) {
      if (Covers(mapping, offset)) {
        Use(mapping);
        done = (!mapping.failed && GuardedStore(mapping.base + (offset - mapping.offset), part)) ||
               done;
      }
    }
    if (!done && !WriteAllAt(backing->file.get(), backing->base + offset, part)) {
      return false;
    }
    offset += length;
    from = from.subspan(length);
  }
  return true;
}

const Memory::Segment* Memory::FindSegment(engine::SpaceId space, std::uint64_t address,
                                           std::uint64_t* start) const {
  const auto known = spaces_.find(space);
  if (known == spaces_.end()) {
    return nullptr;
  }
  auto segment = known->second.upper_bound(address);
  if (segment == known->second.begin()) {
    return nullptr;
  }
  --segment;
  *start = segment->first;
  return address - segment->first < segment->second.length ? &segment->second : nullptr;
}

bool Memory::Resolve(engine::SpaceId space, std::uint64_t address, std::size_t length,
                     std::vector<Piece>* pieces) {
  if (length > ~std::uint64_t{0} - address) {
    return false;
  }
  while (length > 0) {
    std::uint64_t start = 0;
    const Segment* segment = FindSegment(space, address, &start);
    if (segment == nullptr) {
      const wire::Place place = Ask(wire::Bytes(wire::Translate{.key = space, .value = address}));
      if (place.found == 0) {
        return false;
      }
      // No old segment overlaps: kInvalidate told of those that were cut or hidden.
      start = place.start;
      segment = &(spaces_[space][place.start] = {place.length, place.block, place.offset});
    }
    const std::uint64_t within = address - start;
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(length, segment->length - within));
    pieces->push_back({segment->block, segment->offset + within, part});
    address += part;
    length -= part;
  }
  return true;
}

bool Memory::Read(engine::SpaceId space, std::uint64_t address, std::span<std::byte> to) {
  std::vector<Piece> pieces;
  if (!Resolve(space, address, to.size(), &pieces)) {
    return false;
  }
  for (const Piece& piece : pieces) {
    if (!ReadBlock(piece.block, piece.offset, to.first(piece.length))) {
      return false;
    }
    to = to.subspan(piece.length);
  }
  return true;
}

bool Memory::Write(engine::SpaceId space, std::uint64_t address, std::span<const std::byte> from) {
  std::vector<Piece> pieces;
  if (!Resolve(space, address, from.size(), &pieces)) {
    return false;
  }
  for (const Piece& piece : pieces) {
    if (!WriteBlock(piece.block, piece.offset, from.first(piece.length))) {
      return false;
    }
    from = from.subspan(piece.length);
  }
  return true;
}

}  // namespace cgpu::sim
