// A context of the simulated node's libcuda: what a program of CUDA has on one card.
//
// It makes the calls that any program makes of the driver, by a client of its own, and gives its
// work to a channel of its own. Streams have no channels of their own: all work of a context is one
// after the other, which CUDA allows. docs/simulated-driver.md says what there is and what not.
#ifndef CGPU_SIM_CUDA_CONTEXT_H_
#define CGPU_SIM_CUDA_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rmclient/work.h"
#include "sim/engine/timed_kernel.h"

namespace cgpu::sim::cuda {

// CUresult, docs.nvidia.com/cuda/cuda-driver-api.
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kUnknown = 999,
};
const char* NameOf(Status status);
const char* WordsOf(Status status);
// Of an error of the driver's.
Status StatusOf(const Error& error);

// A launch of one of the kernels that are known, ready for the card.
using Kernel = engine::TimedKernel;

// Not thread-safe.
class Context {
 public:
  // On the card of this number, in order of bus address.
  static Status Make(std::size_t card, std::unique_ptr<Context>* context);

  Status MemoryInfo(std::uint64_t* free, std::uint64_t* total);
  Status Allocate(std::uint64_t bytes, std::uint64_t* address);
  Status Free(std::uint64_t address);
  // After what was launched before.
  Status CopyIn(std::uint64_t address, const unsigned char* from, std::size_t bytes);
  Status CopyOut(unsigned char* to, std::uint64_t address, std::size_t bytes);

  // Waits while the channel holds no more.
  Status Launch(const Kernel& kernel);
  [[nodiscard]] std::uint64_t launched() const { return launched_; }
  // Whether so many launches have ended: kSuccess, kNotReady, or what the channel ended with.
  [[nodiscard]] Status Query(std::uint64_t launch) const;
  [[nodiscard]] Status Wait(std::uint64_t launch) const;

 private:
  struct Block {
    rm::NvHandle memory = 0;
    std::uint64_t bytes = 0;
  };
  struct Slot {
    std::uint64_t duration_ns = 0;
    std::uint32_t flags = 0;
    std::uint64_t last = 0;  // launch
  };
  Context(rmclient::Client client, std::vector<rmclient::Card> cards, std::size_t card)
      : client_(std::move(client)), cards_(std::move(cards)), card_(cards_[card]) {}

  template <class Copy>
  Status CopyAt(std::uint64_t address, std::size_t bytes, Copy copy);
  // The number of a program like this; waits until the place of another is free.
  Status ProgramOf(const Kernel& kernel, unsigned* program);

  rmclient::Client client_;
  std::vector<rmclient::Card> cards_;
  rmclient::Card& card_;
  std::optional<rmclient::WorkQueue> queue_;
  std::map<std::uint64_t, Block> blocks_;  // by address
  std::vector<Slot> slots_;                // the programs of the queue
  std::uint64_t launched_ = 0;
};

}  // namespace cgpu::sim::cuda

#endif  // CGPU_SIM_CUDA_CONTEXT_H_
