// Decides when housekeeping looks for what has ended. It looks soon after something is reported,
// then less and less often: the last close is reported before the driver has acted on it, and the
// driver takes its time or puts it off (NVIDIA/open-gpu-kernel-modules 550.163.01
// kernel-open/nvidia/nv.c, nvidia_close_deferred()). Looks never take more than a tenth of the
// time.
//
// Containers share device nodes, so any container's close is reported to each. While looks are due
// anyway, a close leads to a look a tenth of a second after the last one. A neighbour that opens
// and closes all the time causes at most ten looks a second of this shim.
//
// Pure: times are microseconds of one clock, and are given. Not thread-safe.
#ifndef CGPU_SHIM_ROUNDS_H_
#define CGPU_SHIM_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cgpu::shim {

class Rounds {
 public:
  // Returns when the next look is due, if one is.
  [[nodiscard]] std::optional<std::uint64_t> due_us() const { return due_us_; }

  // Notes that something of this container's has ended. A look that is due sooner stays.
  void Hasten(std::uint64_t now_us);

  // Returns whether to listen for closes: false while a close could not make the due look sooner.
  [[nodiscard]] bool Hears(std::uint64_t now_us) const;

  // Notes that a file was closed, perhaps another container's. `holding`: this one holds anything.
  void Closed(std::uint64_t now_us, bool holding);

  // The result of a look.
  struct Look {
    std::uint64_t began_us = 0;
    std::uint64_t ended_us = 0;
    bool found = false;    // something was given back
    bool holding = false;  // something is still held
    bool over = false;     // the container has ended: what is held is with others, or on its way
    // A call was let go on whose end nobody reports, and that must be checked then.
    bool watching = false;
  };
  void Done(const Look& look);

 private:
  void Begin(std::uint64_t now_us);
  [[nodiscard]] std::uint64_t SoonestAgain(std::uint64_t now_us) const;

  std::optional<std::uint64_t> due_us_;
  std::uint64_t allowed_us_ = 0;
  std::size_t step_ = 0;
  std::uint64_t last_us_ = 0;  // the end of the last look
  bool again_ = false;         // a file was closed since a look was due
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_ROUNDS_H_
