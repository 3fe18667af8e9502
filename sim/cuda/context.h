// A context of the simulated node's libcuda: what a program of CUDA has on one GPU.
//
// It makes the calls that any program makes of the driver, by a client of its own, and gives its
// work to a channel of its own. Streams have no channels of their own: all work of a context is one
// after the other, which CUDA allows. docs/reference/simulated-driver.md says what there is and
// what not.
#ifndef CGPU_SIM_CUDA_CONTEXT_H_
#define CGPU_SIM_CUDA_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "sim/cuda/memory.h"
#include "sim/cuda/status.h"
#include "sim/cuda/work.h"
#include "sim/engine/timed_kernel.h"

namespace cgpu::sim::cuda {

// A launch of one of the kernels that are known, ready for the GPU.
using Kernel = engine::TimedKernel;
struct Fill {
  std::uint64_t address = 0;
  unsigned char value = 0;
  std::size_t bytes = 0;
};
struct Copy {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::size_t bytes = 0;
};
// Memory for addresses that a graph reserved, which keeps it.
struct Back {
  std::uint64_t address = 0;
};
// One thing that a stream can be given.
using Step = std::variant<Kernel, Fill, Copy, Back>;

// Not thread-safe.
class Context {
 public:
  // On the GPU of this number, in order of bus address.
  static Status Make(std::size_t gpu, std::unique_ptr<Context>* context);

  [[nodiscard]] Memory& memory() { return *memory_; }

  // After all that was given before: a kernel is launched, anything else done.
  Status Run(const Step& step);
  [[nodiscard]] std::uint64_t launched() const { return launched_; }
  // Whether so many launches have ended: kSuccess, kNotReady, or what the channel ended with.
  [[nodiscard]] Status Query(std::uint64_t launch) const;
  [[nodiscard]] Status Wait(std::uint64_t launch) const;
  [[nodiscard]] Status WaitForAll() const { return Wait(launched_); }

 private:
  struct Slot {
    std::uint64_t duration_ns = 0;
    std::uint32_t flags = 0;
    std::uint64_t last = 0;  // launch
  };
  Context(rmclient::Client client, std::vector<rmclient::Gpu> gpus, std::size_t gpu)
      : client_(std::move(client)), gpus_(std::move(gpus)), gpu_(gpus_[gpu]) {}

  // Waits while the channel holds no more.
  Status Launch(const Kernel& kernel);
  // The number of a program like this; waits until the place of another is free.
  Status ProgramOf(const Kernel& kernel, unsigned* program);

  rmclient::Client client_;
  std::vector<rmclient::Gpu> gpus_;
  rmclient::Gpu& gpu_;
  std::optional<WorkQueue> queue_;
  std::optional<Memory> memory_;
  std::vector<Slot> slots_;  // the programs of the queue
  std::uint64_t launched_ = 0;
};

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_CONTEXT_H_
