// The memory that the engines read and write: pages of the driver's process, of programs' mappings,
// and of programs that lent their own.
#ifndef CGPU_SIM_GPU_MEMORY_H_
#define CGPU_SIM_GPU_MEMORY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "os/messages.h"
#include "sim/engine/gpu_memory.h"
#include "sim/gpu/wire.h"

namespace cgpu::sim {

// Asks the driver's process for what it does not know yet, and keeps the answers until it is told
// that they have changed, as a GPU's TLB does. Used by one thread.
//
// A block that a processor has mapped is used through the inode of that mapping, whose pages both
// sides see at once; with several mappings of a byte it is written through all of them and read
// through the oldest. Other blocks are used through their own file. A mapping is left when the last
// program has closed its file: leaving it writes its pages back to the block.
class Memory final : public engine::GpuMemory {
 public:
  // `socket` leads to the driver's process; a borrow. When nobody is there any more this process
  // ends.
  explicit Memory(int socket) : socket_(socket) {}

  [[nodiscard]] bool Read(engine::SpaceId space, std::uint64_t address,
                          std::span<std::byte> to) override;
  [[nodiscard]] bool Write(engine::SpaceId space, std::uint64_t address,
                           std::span<const std::byte> from) override;
  [[nodiscard]] bool ReadBlock(engine::BlockId block, std::uint64_t offset,
                               std::span<std::byte> to) override;
  [[nodiscard]] bool WriteBlock(engine::BlockId block, std::uint64_t offset,
                                std::span<const std::byte> from) override;

  // Returns the next message; nullopt: none came in this time. Ends the process when nobody is
  // there.
  [[nodiscard]] std::optional<Message> Receive(int timeout_ms);
  // Returns how many came, here and while an answer was waited for.
  [[nodiscard]] std::uint64_t Received() const { return received_; }
  // Takes a message that is about memory; returns false for others.
  [[nodiscard]] bool Take(Message& message);
  // Returns a message that came while an answer was waited for; the oldest first.
  [[nodiscard]] std::optional<Message> NextPostponed();
  [[nodiscard]] bool HasPostponed() const { return !postponed_.empty(); }
  void Send(std::string_view bytes) const;

 private:
  struct Segment {  // of an address space
    std::uint64_t length = 0;
    engine::BlockId block = 0;
    std::uint64_t offset = 0;
  };
  struct Mapping {  // of a program's file
    std::uint64_t ino = 0;
    std::uint64_t offset = 0;  // in the block
    std::uint64_t length = 0;
    UniqueFd path;
    std::byte* base = nullptr;  // once used
    bool failed = false;
  };
  struct Backing {
    std::uint64_t length = 0;
    std::uint64_t base = 0;
    UniqueFd file;
    std::vector<Mapping> mappings;
  };
  struct Piece {
    engine::BlockId block = 0;
    std::uint64_t offset = 0;
    std::size_t length = 0;
  };

  // Finds the pieces that a range consists of; returns false if something of it is not mapped.
  [[nodiscard]] bool Resolve(engine::SpaceId space, std::uint64_t address, std::size_t length,
                             std::vector<Piece>* pieces);
  [[nodiscard]] const Segment* FindSegment(engine::SpaceId space, std::uint64_t address,
                                           std::uint64_t* start) const;
  [[nodiscard]] Backing* FindBacking(engine::BlockId block);
  [[nodiscard]] wire::Place Ask(std::string_view question);
  // Returns how far from `offset` on the same mappings hold.
  [[nodiscard]] static std::size_t Stretch(const Backing& backing, std::uint64_t offset,
                                           std::size_t length);
  [[nodiscard]] static bool Covers(const Mapping& mapping, std::uint64_t offset);
  static void Use(Mapping& mapping);
  static void Leave(Mapping& mapping);
  void Forget(std::uint64_t ino);

  const int socket_;
  std::map<engine::BlockId, Backing> blocks_;
  std::set<engine::BlockId> gone_;  // ids are never used again
  std::map<engine::SpaceId, std::map<std::uint64_t, Segment>> spaces_;
  std::map<std::uint64_t, engine::BlockId> inodes_;
  std::deque<Message> postponed_;
  std::uint64_t received_ = 0;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_GPU_MEMORY_H_
