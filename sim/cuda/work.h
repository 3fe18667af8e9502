// Gives a GPU work: a channel group with one channel, and launches of programs on it.
//
// The GPU decides what a program is: the bytes are the caller's. On a simulated GPU a program that
// begins with sim/engine/timed_kernel.h runs for the time that it names. No doorbell is rung:
// simulated GPUs look at the channels themselves. NVIDIA/open-gpu-doc classes/host/clc56f.h and
// classes/compute/clc6c0.h, clc6c0qmd.h.
#ifndef CGPU_SIM_CUDA_WORK_H_
#define CGPU_SIM_CUDA_WORK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "rmclient/gpus.h"

namespace cgpu::sim::cuda {

// Not thread-safe. Does not free its objects: they end with the client, which must outlive it.
class WorkQueue {
 public:
  static constexpr std::size_t kProgramBytes = 256;
  static constexpr unsigned kPrograms = 64;
  static constexpr unsigned kMostRuns = 1024;

  // Makes a queue of at least `depth` launches at a time, ready for work. Each launch is one entry
  // that runs its program `runs` times, one after the other; at most kMostRuns. kUnsupported: the
  // GPU's classes are not known here.
  [[nodiscard]] static Result<WorkQueue> Make(rmclient::Client& client, const rmclient::Gpu& gpu,
                                              unsigned depth, unsigned runs = 1);

  // Return the handles, for controls: NVA06C_CTRL_CMD_SET_TIMESLICE and its like.
  [[nodiscard]] rm::NvHandle group() const { return group_; }
  [[nodiscard]] rm::NvHandle channel() const { return channel_; }
  [[nodiscard]] unsigned depth() const { return entries_ - 1; }

  // Adds a program and returns its number; at most kPrograms of kProgramBytes each. A program that
  // is written over while it is queued runs as either.
  [[nodiscard]] Result<unsigned> AddProgram(std::span<const std::byte> program);
  void WriteProgram(unsigned number, std::span<const std::byte> program);

  // Queues one launch and returns its number; they count from 1 and end in their order. nullopt:
  // the queue is full.
  [[nodiscard]] std::optional<std::uint64_t> Launch(unsigned program);
  // Returns the number of launches that have ended.
  [[nodiscard]] std::uint64_t Ended() const;
  // Waits until this many have ended. Returns false when they have not in this time, or never will.
  [[nodiscard]] bool Wait(std::uint64_t launch, std::chrono::milliseconds timeout) const;
  // Returns what ended the channel, by the error notifier: ROBUST_CHANNEL_* of nverror.h, 0 for
  // nothing.
  [[nodiscard]] rm::NvU32 Fault() const;

  [[nodiscard]] Result<> SetTimeslice(std::uint64_t microseconds);

 private:
  WorkQueue(rmclient::Client& client, rmclient::Mapping area, unsigned entries, unsigned runs)
      : client_(&client), area_(std::move(area)), entries_(entries), runs_(runs) {}

  [[nodiscard]] Result<> MakeObjects(const rmclient::Gpu& gpu, rm::NvHandle memory);
  void Store(std::size_t offset, std::uint32_t word);
  [[nodiscard]] std::uint32_t Load(std::size_t offset) const;

  rmclient::Client* client_;
  rmclient::Mapping area_;
  unsigned entries_;
  unsigned runs_;
  std::uint64_t address_ = 0;  // address of the area for the GPU
  rm::NvU32 compute_class_ = 0;
  rm::NvHandle group_ = 0;
  rm::NvHandle channel_ = 0;
  unsigned programs_ = 0;
  std::uint64_t launched_ = 0;
};

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_WORK_H_
