// Work of our own for a GPU's engine for compute and graphics, without CUDA: a channel group with
// one channel, and a ring of copies within the GPU's memory.
//
// The engine for graphics has a copy engine of its own, for channels of the graphics engine that
// have an object of a copy class; tinygrad makes copies so (tinygrad/runtime/ops_nv.py,
// _new_gpu_fifo()). So time slices, FIFO_DISABLE_CHANNELS and interleave levels act on these copies
// as on kernels. What they do not show: how long a switch takes between contexts of kernels, which
// save more.
//
// Methods: NVIDIA/open-gpu-doc classes/dma-copy/clc6b5.h. Copy classes from Volta to Blackwell.
// Only simulated GPUs have run this; tinygrad gives real GPUs the same words (LAUNCH_DMA 0x182 and
// 0x14: ops_nv.py of 001d883f).
#ifndef CGPU_RMCLIENT_COPY_QUEUE_H_
#define CGPU_RMCLIENT_COPY_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rmclient/gpus.h"
#include "rmclient/user_channel.h"

namespace cgpu::rmclient {

// Not thread-safe. Its objects end with the client, which must outlive it.
class CopyQueue {
 public:
  // The ring holds so many items. An item is some copies, one after the other, and the time of
  // their end.
  static constexpr std::uint32_t kItems = 2048;
  static constexpr std::uint32_t kMostCopies = 256;  // of an item
  static constexpr std::size_t kCopyBytes = 256 * 1024;
  static constexpr std::size_t kTargets = 8;  // that are copied to in turn

  // Makes a queue that is not scheduled, in a group that was just made. kUnsupported: the GPU's
  // classes are not known here.
  [[nodiscard]] static Result<CopyQueue> Make(Client& client, const Gpu& gpu);

  [[nodiscard]] rm::NvHandle group() const { return channel_.group(); }
  [[nodiscard]] rm::NvHandle channel() const { return channel_.channel(); }

  // Sets how many copies an item has: 1 to kMostCopies. The ring is empty.
  void SetCopies(std::uint32_t copies);
  // Queues items until the ring holds `items`, or is full.
  void Fill(std::uint32_t items = kItems - 1);
  // Returns when items ended that nobody was told of, in order: nanoseconds of the GPU's clock. The
  // last kItems at the most are kept, so call it before Fill() if all matter.
  [[nodiscard]] std::vector<std::uint64_t> TakeEnds();
  // Returns how many items are queued that nobody was told the end of.
  [[nodiscard]] std::uint64_t Pending() const { return queued_ - ended_; }
  // Returns what ended the channel: ROBUST_CHANNEL_* of nverror.h, 0 for nothing.
  [[nodiscard]] rm::NvU32 Fault() const { return channel_.Fault(); }

  // Overwrites the targets, and returns whether all hold the source, as after kTargets copies. The
  // ring is empty.
  void Spoil();
  [[nodiscard]] bool Intact() const;

 private:
  CopyQueue(UserChannel channel, rm::NvU32 copy_class)
      : channel_(std::move(channel)), copy_class_(copy_class) {}

  void Queue();

  UserChannel channel_;
  rm::NvU32 copy_class_ = 0;
  std::uint32_t shared_ = 0;  // words of the part that all items share; 0: they share none
  std::uint64_t queued_ = 0;
  std::uint64_t ended_ = 0;
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_COPY_QUEUE_H_
