// One channel: its ring of entries, its pushbuffer, the state of its classes, and its present work.
//
// Formats and numbers: NVIDIA/open-gpu-kernel-modules src/common/sdk/nvidia/inc/class/clc36f.h,
// clc56f.h and clc86f.h (entries, method headers, host methods, USERD), clc6c0.h and its QMD, and
// clc6b5.h, clc9b0.h of NVIDIA/open-gpu-doc classes.
#ifndef CGPU_SIM_ENGINE_CHANNEL_H_
#define CGPU_SIM_ENGINE_CHANNEL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "sim/engine/gpu.h"
#include "sim/engine/semaphore.h"

namespace cgpu::sim::engine {

struct Group;

// A channel's position in its pushbuffer: the words of the entry that it is at, of which some
// are read ahead, and the method whose data comes next.
struct Pushbuffer {
  static constexpr std::uint32_t kReadAhead = 256;
  enum class Count : std::uint8_t { kIncrement, kSame, kIncrementOnce };

  std::uint64_t address = 0;  // of the next word that is not read yet
  std::uint32_t words = 0;    // that are not read yet
  std::uint64_t base = 0;     // SET_PB_SEGMENT_EXTENDED_BASE
  std::array<std::uint32_t, kReadAhead> ahead{};
  std::uint32_t next = 0;    // in `ahead`
  std::uint32_t filled = 0;  // of `ahead`

  std::uint32_t method = 0;  // byte offset
  std::uint32_t subchannel = 0;
  std::uint32_t left = 0;  // data words that belong to it
  Count count = Count::kIncrement;

  [[nodiscard]] bool Done() const { return next == filled && words == 0; }
};

struct HostState {
  std::uint64_t semaphore = 0;
  std::uint64_t payload = 0;
  std::uint64_t old_semaphore = 0;  // SEMAPHOREA, B
  std::uint32_t old_payload = 0;    // SEMAPHOREC
};

// A launch as it was read from its QMD and the head of its program when it began.
struct Kernel {
  std::uint32_t object = 0;  // the class that launched it
  std::uint32_t flags = 0;   // TimedKernel
  std::uint64_t address = 0;
  std::array<std::optional<Release>, 2> releases;
  std::array<bool, 2> interrupts{};
  std::array<std::optional<std::uint64_t>, 2> dependents;
};

struct ComputeState {
  std::uint64_t qmd = 0;
  std::deque<std::uint64_t> launched;  // QMDs that wait for the end of `kernel`
  Kernel kernel;
  // Inline data to memory.
  std::uint64_t out = 0;
  std::uint32_t pitch_out = 0;
  std::uint32_t line_length = 0;
  std::uint32_t line_count = 0;
  std::uint32_t line = 0;    // the next word goes there
  std::uint32_t offset = 0;  // in that line
  std::uint32_t launch = 0;
  bool loading = false;
  std::uint64_t i2m_semaphore = 0;
  std::uint32_t i2m_payload = 0;
  std::uint64_t report = 0;
  std::uint32_t report_payload = 0;
};

// The registers of a copy object.
struct CopyState {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  std::uint32_t pitch_in = 0;
  std::uint32_t pitch_out = 0;
  std::uint32_t line_length = 0;
  std::uint32_t line_count = 0;
  std::uint64_t semaphore = 0;
  std::uint64_t payload = 0;
  std::uint32_t const_a = 0;
  std::uint32_t const_b = 0;
  std::uint32_t components = 0;
};

// A copy under way: its registers as they were at the launch.
struct CopyJob {
  CopyState from;
  std::uint32_t launch = 0;
  std::uint32_t lines = 0;
  std::uint32_t line = 0;
  std::uint64_t offset = 0;  // in the line, in elements
  std::uint32_t chunk = 0;   // elements that the operation under way moves
};

struct VideoState {
  std::uint64_t semaphore = 0;
  std::uint64_t payload = 0;
};

// Work that occupies the engine for a time. It is done when `remaining` is 0. A hold is a semaphore
// acquire that keeps the engine while it waits; it has no end of its own.
struct Operation {
  enum class Kind : std::uint8_t { kKernel, kCopy, kVideo, kHold };
  static constexpr Duration kEndless = kNever / 4;
  Kind kind = Kind::kKernel;
  Duration remaining = 1;
  bool preemptible = true;
};

// A semaphore that was not released yet. `looked` is the state of memory at which it was read.
struct Wait {
  Acquire acquire;
  std::uint64_t looked = 0;
};

struct Channel {
  ChannelKey key = 0;
  Group* group = nullptr;
  ChannelPlace place;
  bool scheduled = false;
  bool disabled = false;
  bool stopped = false;
  std::optional<bool> disabled_at_restart;  // what `disabled` becomes then

  std::uint32_t gp_get = 0;
  std::uint32_t gp_put = 0;
  std::uint64_t kernels = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t ignored_methods = 0;

  Pushbuffer pushbuffer;
  std::array<std::uint32_t, 8> objects{};  // class by subchannel
  HostState host;
  ComputeState compute;
  CopyState copy;
  VideoState video;

  std::optional<Operation> operation;
  CopyJob copy_job;
  std::optional<Wait> wait;

  [[nodiscard]] bool MayRun() const { return scheduled && !disabled && !stopped; }
  // Returns whether it waits for a semaphore without giving up the engine.
  [[nodiscard]] bool Holds() const {
    return operation.has_value() && operation->kind == Operation::Kind::kHold;
  }
  // Returns whether it has anything to do, or would have if no semaphore were missing.
  [[nodiscard]] bool HasWork() const {
    return operation.has_value() || wait.has_value() || !pushbuffer.Done() || gp_get != gp_put;
  }
};

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_CHANNEL_H_
