// A channel group that keeps a GPU's engine for compute and graphics from others and does nothing
// there: idle time that is put between the others' time slices.
//
// Its channel waits for a semaphore without giving up its time slice (SEM_EXECUTE,
// ACQUIRE_SWITCH_TSG_DIS): "the Host scheduler will ignore any lack of progress and continue
// processing the TSG, until either every channel in the TSG runs out of work or the timeslice
// expires" (NVIDIA/open-gpu-doc manuals/ampere/ga100/dev_pbdma.ref.txt; the same in that of tu104).
// That costs no SM, and next to no memory traffic. An object of a compute class, which the channel
// names before it waits, makes it a context of the engine: then others cannot be there meanwhile,
// and the driver's list of context switches shows it.
//
// Only simulated GPUs have run this. The methods: classes/host/clc36f.h.
#ifndef CGPU_RMCLIENT_IDLE_GROUP_H_
#define CGPU_RMCLIENT_IDLE_GROUP_H_

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "rmclient/gpus.h"
#include "rmclient/user_channel.h"

namespace cgpu::rmclient {

// Not thread-safe. Its objects end with the client, which must outlive it.
class IdleGroup {
 public:
  // Makes a group that is not scheduled and has nothing to do. kUnsupported: the GPU's classes are
  // not known here.
  [[nodiscard]] static Result<IdleGroup> Make(Client& client, const Gpu& gpu);

  [[nodiscard]] rm::NvHandle group() const { return channel_.group(); }
  [[nodiscard]] rm::NvHandle channel() const { return channel_.channel(); }

  // Wants the engine from now on: each time that its turn comes, for a whole time slice.
  void Hold();
  // Wants nothing any more.
  void Release();
  [[nodiscard]] bool holds() const { return holds_; }
  // Returns what ended the channel: ROBUST_CHANNEL_* of nverror.h, 0 for nothing.
  [[nodiscard]] rm::NvU32 Fault() const { return channel_.Fault(); }

 private:
  IdleGroup(UserChannel channel, rm::NvU32 compute_class)
      : channel_(std::move(channel)), compute_class_(compute_class) {}

  UserChannel channel_;
  rm::NvU32 compute_class_ = 0;
  std::uint32_t count_ = 0;  // of Hold()
  bool holds_ = false;
};

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_IDLE_GROUP_H_
