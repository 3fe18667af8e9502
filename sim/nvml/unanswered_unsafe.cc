// The functions of NVML that are not answered here. Programs look them up, or are bound to them, so
// they exist: each says that the GPU does not support it, as NVML does. None looks at its
// arguments, which the calling convention lets a function leave where they are.
#include "sim/nvml/state.h"

namespace {

nvmlReturn_t NotSupported() {
  return cgpu::sim::nvml::With(
      [](cgpu::sim::nvml::State&) { return nvmlReturn_t{NVML_ERROR_NOT_SUPPORTED}; });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's names
#define CGPU_NVML_UNANSWERED(name)    \
  CGPU_NVML_API nvmlReturn_t name() { \
    return NotSupported();            \
  }
#include "sim/nvml/unanswered.inc"
#undef CGPU_NVML_UNANSWERED
// NOLINTEND(readability-identifier-naming)
