// The steps of a channel. The runlist (runlist.h) decides which channel may make one, and when.
#ifndef CGPU_SIM_ENGINE_EXECUTE_H_
#define CGPU_SIM_ENGINE_EXECUTE_H_

#include <cstdint>
#include <optional>
#include <span>

#include "sim/engine/channel.h"
#include "sim/engine/gpu_memory.h"
#include "sim/engine/types.h"

namespace cgpu::sim::engine {

// Returns the bits high to low of a word, as the vendor's headers write fields.
constexpr std::uint32_t Bits(std::uint32_t word, unsigned high, unsigned low) {
  return (word >> low) & static_cast<std::uint32_t>((std::uint64_t{2} << (high - low)) - 1);
}
constexpr bool Bit(std::uint32_t word, unsigned at) {
  return ((word >> at) & 1U) != 0;
}
// Return the value with one half of the 64-bit register replaced.
constexpr std::uint64_t WithUpper(std::uint64_t value, std::uint32_t upper) {
  return (value & 0xffff'ffffU) | (std::uint64_t{upper} << 32U);
}
constexpr std::uint64_t WithLower(std::uint64_t value, std::uint32_t lower) {
  return (value & ~std::uint64_t{0xffff'ffffU}) | lower;
}

struct FaultReport {
  Fault fault = Fault::kGraphics;
  std::uint64_t address = 0;
};

// The result of a step, beside what it left in the channel: an operation, a wait.
struct Step {
  Duration cost = 0;       // time that the front end took
  std::uint64_t work = 1;  // of the caller's budget
  std::optional<FaultReport> fault;
  bool entry_ended = false;  // the next channel's turn
  bool yields = false;       // the whole group's turn is over (YIELD)
  bool kernel_ended = false;
  std::uint64_t copied_bytes = 0;
  bool wrote = false;  // memory changed: others' semaphores may have come
};

// The surroundings of a step.
struct Machine {
  GpuMemory& memory;
  GpuEvents& events;
  const Costs& costs;
  RunlistId runlist = 0;
  Time now = 0;
  std::uint64_t memory_state = 0;  // for Wait::looked
};

// Fetches the next entry, or executes the next word of the pushbuffer. The channel has work, is at
// no operation and waits for nothing.
[[nodiscard]] Step Next(Channel& channel, const Machine& machine);
// Completes the channel's operation, which has had its time: does what it was for and ends it, or
// begins its next part.
[[nodiscard]] Step Complete(Channel& channel, const Machine& machine);
// Reads GP_PUT, where USERD is there. Returns false if it names an entry beyond the ring.
[[nodiscard]] bool ReadPut(Channel& channel, GpuMemory& memory);

// --- One method each, with its data. pushbuffer.cc calls them by the object of the subchannel.

void HostMethod(Channel& channel, const Machine& machine, std::uint32_t method, std::uint32_t data,
                Step& step);
void ComputeMethod(Channel& channel, const Machine& machine, std::uint32_t object,
                   std::uint32_t method, std::uint32_t data, Step& step);
void CopyMethod(Channel& channel, const Machine& machine, std::uint32_t method, std::uint32_t data,
                Step& step);
void VideoMethod(Channel& channel, const Machine& machine, std::uint32_t method, std::uint32_t data,
                 Step& step);

void CompleteKernel(Channel& channel, const Machine& machine, Step& step);
void CompleteCopy(Channel& channel, const Machine& machine, Step& step);

// --- Accesses of a channel to its space. An address that is not mapped becomes the step's fault.

bool ReadOrFault(const Channel& channel, const Machine& machine, std::uint64_t address,
                 std::span<std::byte> to, Step& step);
bool WriteOrFault(const Channel& channel, const Machine& machine, std::uint64_t address,
                  std::span<const std::byte> from, Step& step);
void ReleaseOrFault(const Channel& channel, const Machine& machine, const Release& release,
                    Step& step);

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_EXECUTE_H_
