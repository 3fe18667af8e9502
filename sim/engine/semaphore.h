// Semaphores in memory: what waits for them, and what is written when they are released.
#ifndef CGPU_SIM_ENGINE_SEMAPHORE_H_
#define CGPU_SIM_ENGINE_SEMAPHORE_H_

#include <cstdint>
#include <optional>

#include "sim/engine/gpu_memory.h"
#include "sim/engine/types.h"

namespace cgpu::sim::engine {

enum class Compare : std::uint8_t {
  kEqual,
  kStrictGreaterEqual,
  kCircularGreaterEqual,
  kAnd,
  kNor
};

struct Acquire {
  std::uint64_t address = 0;
  std::uint64_t payload = 0;
  Compare compare = Compare::kEqual;
  bool wide = false;  // 64 bits
};

// Returns whether what is waited for has come; nullopt if it is not mapped.
[[nodiscard]] std::optional<bool> IsThere(const Acquire& acquire, GpuMemory& memory, SpaceId space);

// Numbered as in clc36f.h SEM_EXECUTE_REDUCTION and clc6b5.h SEMAPHORE_REDUCTION.
enum class Reduction : std::uint8_t { kMin, kMax, kXor, kAnd, kOr, kAdd, kIncrement, kDecrement };
// Converts the numbers of the compute classes: clc6c0.h SET_REPORT_SEMAPHORE_D_REDUCTION_OP.
[[nodiscard]] Reduction ComputeReduction(std::uint32_t number);

struct Release {
  std::uint64_t address = 0;
  std::uint64_t payload = 0;
  bool wide = false;       // 64 bits of payload
  bool timestamp = false;  // 16 bytes: payload, its upper half or 0, the time in nanoseconds
  std::optional<Reduction> reduction;
  bool is_signed = false;  // of the reduction
};

// Writes the time before the payload, which is what others watch. Returns false if it is not
// mapped.
[[nodiscard]] bool Write(const Release& release, GpuMemory& memory, SpaceId space, Time now);

}  // namespace cgpu::sim::engine

#endif  // CGPU_SIM_ENGINE_SEMAPHORE_H_
