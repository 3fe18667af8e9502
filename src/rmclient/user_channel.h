// A channel of our own for a GPU's engine for compute and graphics, without CUDA: in a group of its
// own, with a ring that this process fills.
//
// Methods and layouts: NVIDIA/open-gpu-doc classes/host/clc36f.h, clc361.h. Channel classes from
// Volta to Blackwell. Only simulated GPUs have run this; tinygrad gives real GPUs the same words
// (the doorbell at 0x90: ops_nv.py of 001d883f).
#ifndef CGPU_RMCLIENT_USER_CHANNEL_H_
#define CGPU_RMCLIENT_USER_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "rmclient/channels.h"
#include "rmclient/gpus.h"

namespace cgpu::rmclient {

// Orders what was stored before it before what is stored after it, also in memory that combines
// writes.
void StoreFence();

// Not thread-safe. Its objects end with the client, which must outlive it.
class UserChannel {
 public:
  // Places in the channel's area, which is memory of the GPU.
  struct Layout {
    std::size_t bytes = 0;
    std::size_t userd = 0;
    std::size_t ring = 0;
    std::uint32_t entries = 0;  // of the ring
  };
  // Makes a channel that is not scheduled, in a group that was just made. kUnsupported: the GPU's
  // classes are not known here.
  [[nodiscard]] static Result<UserChannel> Make(Client& client, const Gpu& gpu,
                                                const Layout& layout);

  [[nodiscard]] rm::NvHandle group() const { return group_; }
  [[nodiscard]] rm::NvHandle channel() const { return channel_; }
  [[nodiscard]] std::uint64_t address() const { return address_; }  // of the area, for the GPU

  void Store(std::size_t offset, std::uint32_t word);
  [[nodiscard]] std::uint32_t Load(std::size_t offset) const;
  // Makes an entry of the ring lead to so many words of methods.
  void SetEntry(std::size_t entry, std::size_t methods, std::uint64_t words);
  // Lets the GPU run all entries before `put`, and rings.
  void Submit(std::uint32_t put);
  // Returns what ended the channel: ROBUST_CHANNEL_* of nverror.h, 0 for nothing.
  [[nodiscard]] rm::NvU32 Fault() const;

 private:
  UserChannel(const Layout& layout, Mapping area, Mapping errors, Mapping doorbell)
      : layout_(layout),
        area_(std::move(area)),
        errors_(std::move(errors)),
        doorbell_(std::move(doorbell)) {}

  Layout layout_;
  Mapping area_;
  Mapping errors_;
  Mapping doorbell_;
  std::uint64_t address_ = 0;
  rm::NvHandle group_ = 0;
  rm::NvHandle channel_ = 0;
  rm::NvU32 token_ = 0;  // for the doorbell
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_USER_CHANNEL_H_
