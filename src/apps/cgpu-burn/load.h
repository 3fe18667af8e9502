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

  // What one launch takes on a card that has nothing else to do.
  [[nodiscard]] std::uint64_t launch_ns() const { return kernel_us * graph * 1000; }
};

// Not thread-safe. Its end takes what is still queued off the card.
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
};

// Timed kernels on a simulated card. kUnsupported: the card is a real one, for which they would be
// a program of no sense.
[[nodiscard]] Result<std::unique_ptr<Load>> MakeTimedLoad(const Shape& shape);

}  // namespace cgpu::burn

#endif  // CGPU_APPS_CGPU_BURN_LOAD_H_
