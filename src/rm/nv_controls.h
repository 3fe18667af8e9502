// Numbers of RM controls, by the vendor's names.
//
// From NVIDIA/open-gpu-kernel-modules src/common/sdk/nvidia/inc/ctrl/, the reference releases of
// abi.h. The rows, with what else is known of each, are in controls/: one line there is both the
// number here and the row in control_table.h. Layouts of parameters: nv_ctrl.h.
#ifndef CGPU_RM_NV_CONTROLS_H_
#define CGPU_RM_NV_CONTROLS_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

#define CGPU_CONTROL(name, number, ...) inline constexpr NvU32 name = number;
#define CGPU_CONTROL_NO_PARAMS(name, number, ...) inline constexpr NvU32 name = number;
#define CGPU_CONTROL_FIRMWARE(name, number, ...) inline constexpr NvU32 name = number;
#include "rm/controls/ctrl0000.inc"
#include "rm/controls/ctrl0080.inc"
#include "rm/controls/ctrl2080.inc"
#include "rm/controls/ctrl_firmware.inc"
#include "rm/controls/ctrl_objects.inc"
#include "rm/controls/ctrl_tools.inc"
#undef CGPU_CONTROL
#undef CGPU_CONTROL_NO_PARAMS
#undef CGPU_CONTROL_FIRMWARE

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_CONTROLS_H_
