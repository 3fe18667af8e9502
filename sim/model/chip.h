// The chips of the simulated GPUs: which classes they have, and their architecture.
#ifndef CGPU_SIM_MODEL_CHIP_H_
#define CGPU_SIM_MODEL_CHIP_H_

#include <span>

#include "rm/nv_types.h"

namespace cgpu::sim {

// Numbers of the first chip of each family: ctrl2080mc.h ..._TU100, ..._GA100.
inline constexpr rm::NvU32 kTuring = 0x160;
inline constexpr rm::NvU32 kAmpere = 0x170;

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
};

extern const Chip kGv100;
extern const Chip kTu104;
extern const Chip kGa100;
extern const Chip kGa102;
extern const Chip kGh100;

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_CHIP_H_
