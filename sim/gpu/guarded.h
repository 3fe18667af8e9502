// Loads and stores of mapped memory that may turn out not to be there.
#ifndef CGPU_SIM_GPU_GUARDED_H_
#define CGPU_SIM_GPU_GUARDED_H_

#include <cstddef>
#include <span>

#include "base/result.h"

namespace cgpu::sim {

// Takes over SIGBUS and SIGSEGV of this process, which must have one thread.
[[nodiscard]] Result<> InstallGuards();

// Return false when a page of the mapped side is not there; the bytes moved before it stay. 4 and 8
// bytes at an address that they divide are one load or one store.
[[nodiscard]] bool GuardedLoad(const std::byte* mapped, std::span<std::byte> to);
[[nodiscard]] bool GuardedStore(std::byte* mapped, std::span<const std::byte> from);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_GPU_GUARDED_H_
