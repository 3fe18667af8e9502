// A kernel that says how long it runs.
//
// The simulated GPU executes no instructions. A program whose memory begins with this header (at
// the program address of the QMD) occupies the engine for the time it names and does nothing else;
// any other program does so for Costs::kernel_ns. Little endian.
#ifndef CGPU_SIM_ENGINE_TIMED_KERNEL_H_
#define CGPU_SIM_ENGINE_TIMED_KERNEL_H_

#include <cstdint>

namespace cgpu::sim::engine {

struct TimedKernel {
  static constexpr std::uint64_t kMagic = 0x4c4e524b55504743;  // "CGPUKRNL"
  static constexpr std::uint32_t kVersion = 1;

  // Flags.
  // Keeps the engine from taking it off before its end: no compute preemption, as with WFI.
  static constexpr std::uint32_t kNotPreemptible = 1U << 0;
  // Writes, at its end, a word of 0 at `address`: an MMU fault where nothing is mapped.
  static constexpr std::uint32_t kAccesses = 1U << 1;
  // Raises, at its end, a graphics exception.
  static constexpr std::uint32_t kTraps = 1U << 2;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t flags = 0;
  std::uint64_t duration_ns = 0;  // 0 counts as 1
  std::uint64_t address = 0;
};
static_assert(sizeof(TimedKernel) == 32);

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_TIMED_KERNEL_H_
