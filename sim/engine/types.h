// Names, times and costs of the engine: the part of the simulated GPU that runs work.
#ifndef CGPU_SIM_ENGINE_TYPES_H_
#define CGPU_SIM_ENGINE_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace cgpu::sim::engine {

// Nanoseconds of one clock that the caller chooses and that never goes back. It is also what the
// GPU's timer (PTIMER) shows: the timestamps of semaphores are these.
using Time = std::uint64_t;
using Duration = std::uint64_t;
inline constexpr Time kNever = ~Time{0};

// The caller's own names. A key is used once: never again after it was removed.
using GroupKey = std::uint64_t;    // a channel group (TSG)
using ChannelKey = std::uint64_t;  // a channel
using RunlistId = std::uint32_t;   // one per engine; the engine type of RM serves well
using SpaceId = std::uint64_t;     // an address space of the GPU
using BlockId = std::uint64_t;     // memory that is named without an address space (USERD)

// NVIDIA/open-gpu-kernel-modules src/common/sdk/nvidia/inc/ctrl/ctrla06c.h
// NVA06C_CTRL_INTERLEAVE_LEVEL_*
enum class Interleave : std::uint8_t { kLow = 0, kMedium = 1, kHigh = 2 };

// When a time slice that is set takes effect. Whoever says what a GPU does is named in
// docs/reference/simulated-driver.md. A restart (RESTART_RUNLIST) makes it take effect in all cases
// but kNotAtAll.
enum class SliceEffect : std::uint8_t {
  kAtOnce,
  kPreempt,      // when the group is preempted by PREEMPT, or first scheduled
  kOwnSchedule,  // at a GPFIFO_SCHEDULE of the group, also one that changes nothing
  kAnySchedule,  // at a GPFIFO_SCHEDULE of any group on its runlist
  kRestart,      // at a restart alone, also if the group was not scheduled yet
  kNotAtAll,
};
// When FIFO_DISABLE_CHANNELS takes effect on channels that are scheduled: both ways, off and on.
// On others it takes effect at once.
enum class DisableEffect : std::uint8_t {
  kAtOnce,
  kRestart,
  kForGood,  // off at once, and never on again
};

// Costs and durations. The first three figures are those of measured GPUs: a switch of 40 us
// (44 MB of context at 1.1 TB/s), RM's preemption 250-356 us (gpu_ext, arXiv 2512.12615), RM's
// default time slice 128 << 3 units of 1024 ns (src/nvidia/src/kernel/gpu/fifo/arch/volta/
// kernel_fifo_gv100.c). All others are the simulation's. A figure of 0 counts as 1 where time would
// stand still.
struct Costs {
  Duration context_switch_ns = 40'000;
  Duration rm_preempt_ns = 300'000;
  Duration default_slice_ns = Duration{1024} * 1024;
  // Time that an engine waits for a kernel that cannot be preempted before the channel gets an
  // error. RM can set it (NV2080_CTRL_CMD_FIFO_CONFIG_CTXSW_TIMEOUT). Its default is in the
  // driver's closed part.
  Duration context_switch_timeout_ns = 2'000'000'000;
  Duration kernel_ns = 10'000;          // a program without a TimedKernel header
  std::uint64_t bytes_per_us = 20'000;  // of a copy: 20 GB/s
  Duration entry_ns = 100;              // to fetch one GPFIFO entry
  Duration method_ns = 25;              // to execute one method
  // True: scheduling begins from the first entry when a runlist is submitted again, as nvgpu's
  // runlist.c says. False: it goes on behind the group that ran. Slices expire in either case.
  bool submission_restarts = false;
  SliceEffect slice_effect = SliceEffect::kAtOnce;
  DisableEffect disable_effect = DisableEffect::kAtOnce;
  std::size_t kept_starts = 65'536;  // length of the log of starts
  std::size_t kept_residences = 4'096;
};

// Errors that end a channel, as the notifier and Xid tell them. src/common/sdk/nvidia/inc/nverror.h
enum class Fault : std::uint32_t {
  kGraphics = 13,               // ROBUST_CHANNEL_GR_EXCEPTION
  kMmu = 31,                    // ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT
  kPushbuffer = 32,             // ROBUST_CHANNEL_PBDMA_ERROR
  kContextSwitchTimeout = 109,  // ROBUST_CHANNEL_CTXSW_TIMEOUT_ERROR
};

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_TYPES_H_
