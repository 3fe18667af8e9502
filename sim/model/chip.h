// The chips of the simulated GPUs: which classes they have, and their architecture.
#ifndef CGPU_SIM_MODEL_CHIP_H_
#define CGPU_SIM_MODEL_CHIP_H_

#include <span>

#include "rm/nv_types.h"

namespace cgpu::sim {

// Numbers of the first chip of each family: ctrl2080mc.h ..._TU100, ..._GA100,
// ..._GH100, ..._AD100.
inline constexpr rm::NvU32 kTuring = 0x160;
inline constexpr rm::NvU32 kAmpere = 0x170;
inline constexpr rm::NvU32 kHopper = 0x180;
inline constexpr rm::NvU32 kAda = 0x190;  // above Hopper's, and older

struct Chip {
  rm::NvU32 architecture;  // NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_*, as below
  rm::NvU32 implementation;
  rm::NvU32 sm_version;  // NV2080_CTRL_GR_INFO_SM_VERSION_*
  rm::NvU32 max_gpcs;
  rm::NvU32 max_tpcs_per_gpc;
  rm::NvU32 max_warps_per_sm;
  rm::NvU32 fp32_cores_per_sm;
  rm::NvU32 copy_engines;
  rm::NvU32 decoders;
  rm::NvU32 encoders;
  rm::NvU32 jpeg_engines;
  std::span<const rm::NvU32> classes;  // what GPU_GET_CLASSLIST answers, without displays

  [[nodiscard]] bool Has(rm::NvU32 cls) const;
  // Returns whether NVIDIA's MIG user guide lists GPUs of this chip: A100, H100, B200 and their
  // kin. They also are those with NVLink's fabric.
  [[nodiscard]] bool Divisible() const;
};

extern const Chip kGv100;
extern const Chip kTu104;
extern const Chip kGa100;
extern const Chip kGa102;
extern const Chip kGh100;
extern const Chip kAd104;
extern const Chip kGb100;

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_CHIP_H_
