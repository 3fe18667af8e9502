// Work that cgpu-burn gives to a GPU: launches that end in their order.
#ifndef CGPU_TESTS_LOAD_BURN_LOAD_H_
#define CGPU_TESTS_LOAD_BURN_LOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace cgpu::burn {

// The kind of launches, and their GPU.
struct Shape {
  std::uint64_t kernel_us = 1000;
  unsigned queue = 64;  // launches at a time
  unsigned graph = 1;   // kernels in one launch, one after the other
  unsigned gpu = 0;     // in order of bus address
  bool rigid = false;   // the GPU cannot take it off before its end
  bool cuda = false;    // uses CUDA, also on a simulated GPU
  // Uses one block on each multiprocessor; for CUDA's kernels alone. A block on one multiprocessor
  // has the GPU as much as one on each, because a time slice is the whole GPU's. Other effects, for
  // example heat, may need more blocks.
  bool wide = false;
  std::optional<std::uint64_t> steps;  // instead of measuring how many take kernel_us

  // Returns the time of one launch on a GPU that has nothing else to do.
  [[nodiscard]] std::uint64_t launch_ns() const { return kernel_us * graph * 1000; }
};

// Not thread-safe. Queued launches are off the GPU once the process has ended.
class Load {
 public:
  Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  virtual ~Load() = default;

  // Queues one launch. Returns false if the queue is full.
  [[nodiscard]] virtual bool Launch() = 0;
  // Returns how many launches have ended.
  [[nodiscard]] virtual std::uint64_t Ended() const = 0;
  // Returns the reason why no launch will end any more; nullopt: nothing is wrong.
  [[nodiscard]] virtual std::optional<Error> Broken() const = 0;
  // Returns the number that one kernel counts to, where it counts.
  [[nodiscard]] virtual std::optional<std::uint64_t> Steps() const { return std::nullopt; }
};

// Makes timed kernels on a simulated GPU, CUDA's on a real one.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeLoad(const Shape& shape);

// Makes timed kernels. The GPU must be a simulated one: on a real one they would be a program
// without meaning.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeTimedLoad(const Shape& shape);
// Makes kernels that count, by libcuda.so.1. First measures how far they count, which takes half a
// second on a GPU of its own. Queued launches end with the process, not with this object.
// kNotFound: there is no CUDA; kUnsupported: CUDA cannot do `shape`.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeCudaLoad(const Shape& shape);

[[nodiscard]] Error NoSuchGpu(unsigned gpu, std::size_t count);

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_LOAD_H_
