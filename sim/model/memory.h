// The memory of one simulated GPU and what is taken from it.
#ifndef CGPU_SIM_MODEL_MEMORY_H_
#define CGPU_SIM_MODEL_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "rm/nv_types.h"
#include "rm/vidmem.h"
#include "sim/model/channel_ids.h"

namespace cgpu::sim {

// Counts the bytes of one GPU. Thread-compatible.
class GpuMemory {
 public:
  explicit GpuMemory(rm::NvU64 total) : total_(total) {}
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  // Changes nothing and returns false when `bytes` are more than what is free.
  [[nodiscard]] bool Take(rm::NvU64 bytes) {
    if (bytes > Free()) {
      return false;
    }
    used_ += bytes;
    return true;
  }
  void Return(rm::NvU64 bytes) { used_ -= bytes; }

  [[nodiscard]] rm::NvU64 Total() const { return total_; }
  [[nodiscard]] rm::NvU64 Used() const { return used_; }
  [[nodiscard]] rm::NvU64 Free() const { return total_ - used_; }

 private:
  const rm::NvU64 total_;
  rm::NvU64 used_ = 0;
};

// Bytes of a GPU that are returned when the last reference goes. Empty for system memory.
class Charge {
 public:
  Charge() = default;
  // `memory` must outlive the charge; the bytes are taken already.
  Charge(GpuMemory& memory, rm::NvU64 bytes) : memory_(&memory), bytes_(bytes) {}
  Charge(Charge&& other) noexcept : memory_(other.memory_), bytes_(other.bytes_) {
    other.memory_ = nullptr;
  }
  Charge& operator=(Charge&&) = delete;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (memory_ != nullptr) {
      memory_->Return(bytes_);
    }
  }

  [[nodiscard]] rm::NvU64 Bytes() const { return memory_ == nullptr ? 0 : bytes_; }

 private:
  GpuMemory* memory_ = nullptr;
  rm::NvU64 bytes_ = 0;
};

// The bytes of a block, for their keeper. The model only says when they go. Thread-safe.
class Pages {
 public:
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  virtual ~Pages() = default;

  // Move bytes up to where there is no memory. Return how many were moved.
  virtual std::size_t Read(rm::NvU64 offset, std::span<std::byte> out) const = 0;
  virtual std::size_t Write(rm::NvU64 offset, std::span<const std::byte> bytes) = 0;
  // Returns a file that has them, from Base() on. A borrow.
  [[nodiscard]] virtual int File() const = 0;
  [[nodiscard]] virtual rm::NvU64 Base() const = 0;
};

// One piece of memory, shared by every object that was duplicated from the first and by exports:
// the driver's memory descriptor. It goes with its last holder.
struct Block {
  Block(rm::NvU64 block_id, int gpu_index, rm::NvU64 block_length, Charge block_charge)
      : id(block_id), gpu(gpu_index), length(block_length), charge(std::move(block_charge)) {}

  const rm::NvU64 id;      // names its pages
  const int gpu;           // index, or -1 for system memory
  const rm::NvU64 length;  // what the driver says its size is
  const Charge charge;
  bool registers = false;  // of the GPU's register space: nothing of its memory
  bool user_read_only = false;
  int shared_data_of = -1;  // RM_USER_SHARED_DATA of this GPU: its pages are made when read
  rm::NvU64 page_size = rm::kPage4K;  // memdescGetPageSize()
  std::shared_ptr<Pages> pages;       // made when first touched
  std::shared_ptr<void> given;        // tells the engines, which have its bytes, when it goes
};

class OnGpu;

// A channel group with its number and its context buffers on the GPU, shared like a block.
struct Group {
  Group(int gpu_index, rm::NvU32 group_runlist, std::unique_ptr<ChannelIds::Id> group_id,
        Charge group_charge)
      : gpu(gpu_index),
        runlist(group_runlist),
        id(std::move(group_id)),
        charge(std::move(group_charge)) {}

  const int gpu;
  const rm::NvU32 runlist;  // the engine type its channels are for
  const std::unique_ptr<ChannelIds::Id> id;
  const Charge charge;
  // Values that controls set.
  rm::NvU64 timeslice_us = 0;  // 0: the driver's default
  rm::NvU32 interleave = 0;
  rm::NvU64 preemptions = 0;
  rm::NvU32 preemption_mode = 0;
  bool scheduled = false;
  std::shared_ptr<OnGpu> on_gpu;  // once a channel of it was scheduled
};

// An address space of a GPU, shared by its duplicates.
struct VaSpace {
  bool externally_owned = false;  // NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED
  bool page_directory_set = false;
  std::uint64_t version = 0;  // counts what was taken out of its page tables by nvidia-uvm
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_MEMORY_H_
