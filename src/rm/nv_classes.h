// Numbers of RM classes, by the vendor's names.
//
// From NVIDIA/open-gpu-kernel-modules src/common/sdk/nvidia/inc/class/*.h and nvos.h and
// src/nvidia/generated/g_allclasses.h, the reference releases of abi.h. One line of classes.inc is
// both the number here and the row in class_table.h.
#ifndef CGPU_RM_NV_CLASSES_H_
#define CGPU_RM_NV_CLASSES_H_

#include "rm/nv_types.h"

namespace cgpu::rm {

#define CGPU_CLASS(name, number, ...) inline constexpr NvU32 name = number;
#include "rm/classes.inc"
#undef CGPU_CLASS

}  // namespace cgpu::rm

#endif  // CGPU_RM_NV_CLASSES_H_
