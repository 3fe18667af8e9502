// The vendor's basic types, by the vendor's names.
//
// From NVIDIA/open-gpu-kernel-modules 550.163.01 src/common/sdk/nvidia/inc/nvtypes.h. Pointers that
// cross the ioctl boundary are always 64-bit numbers here; nothing dereferences one.
#ifndef CGPU_RM_NV_TYPES_H_
#define CGPU_RM_NV_TYPES_H_

#include <cstdint>

namespace cgpu::rm {

using NvU8 = std::uint8_t;
using NvU16 = std::uint16_t;
using NvU32 = std::uint32_t;
using NvU64 = std::uint64_t;
using NvS16 = std::int16_t;
using NvS32 = std::int32_t;
using NvV32 = std::uint32_t;
using NvBool = std::uint8_t;
using NvHandle = std::uint32_t;
using NvP64 = std::uint64_t;  // an address in the caller's memory

// A field of bits `hi`..`lo`, as the vendor writes "24:23".
struct BitField {
  unsigned hi;
  unsigned lo;

  [[nodiscard]] constexpr NvU32 Mask() const {
    return static_cast<NvU32>(((NvU64{1} << (hi - lo + 1)) - 1) << lo);
  }
  [[nodiscard]] constexpr NvU32 Get(NvU32 word) const { return (word & Mask()) >> lo; }
  [[nodiscard]] constexpr NvU32 Set(NvU32 word, NvU32 value) const {
    return (word & ~Mask()) | ((value << lo) & Mask());
  }
};

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_TYPES_H_
