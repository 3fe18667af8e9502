// The memory that an engine reads and writes, and what it tells the world. The owner of the pages
// implements it.
#ifndef CGPU_SIM_ENGINE_GPU_MEMORY_H_
#define CGPU_SIM_ENGINE_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/engine/types.h"

namespace cgpu::sim::engine {

// Called on the thread that called Gpu, from within the call; never call back into Gpu.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  virtual ~GpuMemory() = default;

  // Access a GPU virtual address of an address space. Return false if some byte is not mapped for
  // that; then nothing was written. An access of 4 or 8 bytes at an address that they divide must
  // be one load or one store: processors watch such words. Stores become visible in the order of
  // the calls. The length is at least 1 and at most 256 KiB; the sum of address and length may
  // overflow, which is "not mapped".
  [[nodiscard]] virtual bool Read(SpaceId space, std::uint64_t address,
                                  std::span<std::byte> to) = 0;
  [[nodiscard]] virtual bool Write(SpaceId space, std::uint64_t address,
                                   std::span<const std::byte> from) = 0;
  // Do the same for memory that is named by its block: USERD, 4 bytes at a time.
  [[nodiscard]] virtual bool ReadBlock(BlockId block, std::uint64_t offset,
                                       std::span<std::byte> to) = 0;
  [[nodiscard]] virtual bool WriteBlock(BlockId block, std::uint64_t offset,
                                        std::span<const std::byte> from) = 0;
};

// As GpuMemory: called from within the call, and must not call back.
class GpuEvents {
 public:
  GpuEvents() = default;
  GpuEvents(const GpuEvents&) = delete;
  GpuEvents& operator=(const GpuEvents&) = delete;
  virtual ~GpuEvents() = default;

  // Hears that a channel did what ends it, and with it its whole group, as RM's recovery tears a
  // TSG down: no channel of the group runs again, they stay until they are removed. Called once per
  // group. `address`: of the access, for kMmu; else 0. Every channel of the group has a notifier to
  // write.
  virtual void OnFault(GroupKey group, ChannelKey channel, Fault fault, std::uint64_t address,
                       Time at) = 0;
  // Hears that a channel asked for an interrupt that does not stall (NON_STALL_INTERRUPT, or the
  // awaken and interrupt flags of a release). Called as often as it asks.
  virtual void OnInterrupt(RunlistId runlist, ChannelKey channel, Time at) = 0;
};

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_GPU_MEMORY_H_
