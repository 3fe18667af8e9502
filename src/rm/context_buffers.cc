#include "rm/context_buffers.h"

#include <limits>

#include "rm/vidmem.h"

namespace cgpu::rm {
namespace {

constexpr NvU64 kMax = std::numeric_limits<NvU64>::max();

NvU64 RoundUpToPower(NvU64 value, NvU64 power_of_two) {
  return value > kMax - (power_of_two - 1) ? kMax
                                           : (value + power_of_two - 1) & ~(power_of_two - 1);
}

NvU64 Add(NvU64 x, NvU64 y) {
  return x > kMax - y ? kMax : x + y;
}

}  // namespace

NvU64 ContextGroupBytes(const ContextBufferSizes& sizes, NvU32 max_subcontexts) {
  NvU64 total = 0;
  for (const NvU64 size : sizes) {
    total = Add(total, RoundUpToPower(size, kPage4K));
  }
  if (sizes[0] != 0) {
    total = Add(total, NvU64{max_subcontexts} * kPage4K);
  }
  return RoundUpToPower(total, kVidmemGranularity);
}

NvU64 AddressSpaceBytes(NvU32 architecture) {
  constexpr NvU32 kTuring = 0x160;
  constexpr NvU32 kHopper = 0x180;
  if (architecture < kTuring) {
    return 0;
  }
  return (architecture < kHopper ? 3 : 4) * kPage4K;
}

}  // namespace cgpu::rm
