// Work that cgpu-burn gives to a card: launches that end in their order.
#ifndef CGPU_APPS_CGPU_BURN_LOAD_H_
#define CGPU_APPS_CGPU_BURN_LOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace cgpu::burn {

// What is launched, and on which card.
struct Shape {
  std::uint64_t kernel_us = 1000;
  unsigned queue = 64;  // launches at a time
  unsigned graph = 1;   // kernels in one launch, one after the other
  unsigned card = 0;    // in order of bus address
  bool rigid = false;   // what the card cannot take off before its end
  bool cuda = false;    // by CUDA, also on a simulated card
  // Of CUDA's kernels alone. A block on one multiprocessor has the card as much as one on each: a
  // time slice is the whole card's. What else the card does, heat for one, may ask for more.
  bool wide = false;
  std::optional<std::uint64_t> steps;  // in place of measuring how many take kernel_us

  // What one launch takes on a card that has nothing else to do.
  [[nodiscard]] std::uint64_t launch_ns() const { return kernel_us * graph * 1000; }
};

// Not thread-safe. What is still queued is off the card when the process has ended.
class Load {
 public:
  Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  virtual ~Load() = default;

  // Queues one launch; false: as many as the queue holds are under way.
  [[nodiscard]] virtual bool Launch() = 0;
  // How many launches have ended.
  [[nodiscard]] virtual std::uint64_t Ended() const = 0;
  // Why none will end any more; nullopt: nothing is wrong.
  [[nodiscard]] virtual std::optional<Error> Broken() const = 0;
  // What one kernel counts to, where it counts.
  [[nodiscard]] virtual std::optional<std::uint64_t> Steps() const { return std::nullopt; }
};

// Timed kernels on a simulated card, CUDA's on a real one.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeLoad(const Shape& shape);

// Timed kernels. The card must be a simulated one: for a real one they would be a program of no
// sense.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeTimedLoad(const Shape& shape);
// Kernels that count, by libcuda.so.1; how far is found out first, which takes half a second on a
// card of its own. What is queued goes when the process ends, not with this. kNotFound: there is no
// CUDA; kUnsupported: `shape` is nothing that CUDA can do.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeCudaLoad(const Shape& shape);

[[nodiscard]] Error NoSuchCard(unsigned card, std::size_t count);

}  // namespace cgpu::burn

#endif  // CGPU_APPS_CGPU_BURN_LOAD_H_
