// Tells where the driver takes a control: most to a row of its own tables, some past them.
//
// The route is read from the driver's dispatch code, not from its headers, in this order
// (NVIDIA/open-gpu-kernel-modules; the same in the reference release of every branch):
//
// 1. src/nvidia/src/kernel/rmapi/control.c _rmapiRmControl(): category and index 0, whatever the
//    class, is a command that does nothing.
// 2. src/nvidia/interface/deprecated/rmapi_deprecated_control.c RmDeprecatedGetControlHandler():
//    eight old commands become newer ones (their rows in controls/ say so). Then, where the GPU has
//    a system processor, every command with bit 15, *on any object that belongs to a GPU and
//    whatever class its number names*, goes to that processor's firmware
//    (rmapi_gss_legacy_control.c RmGssLegacyRpcCmd()). Parameters are copied flat, of any size.
//    Commands with bits 15 and 14 are for administrators.
// 3. src/nvidia/src/kernel/rmapi/binary_api.c binapiControl_IMPL(): on an object of NV2081_BINAPI
//    *every* command goes to the firmware, whatever class its number names. The same on
//    NV2082_BINAPI_PRIVILEGED for administrators.
// 4. src/nvidia/src/libraries/resserv/src/rs_resource.c resControlLookup_IMPL(): everything else is
//    looked up in the tables of the object's class. A command without a row there gets
//    NV_ERR_NOT_SUPPORTED.
//
// Beside the number, NVOS54_PARAMETERS::flags changes what a control is: with
// NVOS54_FLAGS_FINN_SERIALIZED the parameters are another encoding of themselves, which the driver
// turns into the structure itself (rmapi_finn.c serverDeserializeCtrlDown()).
//
// Pure; thread-safe.
#ifndef CGPU_RM_CONTROL_ROUTE_H_
#define CGPU_RM_CONTROL_ROUTE_H_

#include "rm/nv_classes.h"
#include "rm/nv_types.h"

namespace cgpu::rm {

enum class ControlRoute : NvU8 {
  kNothing,             // answered with NV_OK by the driver itself
  kTable,               // a row of the driver's tables, or of its deprecated commands
  kFirmware,            // by its number, on any object of a GPU
  kFirmwarePrivileged,  // the same, for administrators
  kFirmwareByObject,    // by its object, whatever its number
};

inline constexpr NvU32 kGssLegacyMask = 0x8000;            // RM_GSS_LEGACY_MASK
inline constexpr NvU32 kGssLegacyPrivilegedMask = 0xC000;  // RM_GSS_LEGACY_MASK_PRIVILEGED

// Returns the route. `object_class`: of the object that the control is sent to.
[[nodiscard]] constexpr ControlRoute RouteOf(NvU32 cmd, NvU32 object_class) {
  if ((cmd & 0xFFFFU) == 0) {
    return ControlRoute::kNothing;
  }
  if ((cmd & kGssLegacyMask) != 0) {
    return (cmd & kGssLegacyPrivilegedMask) == kGssLegacyPrivilegedMask
               ? ControlRoute::kFirmwarePrivileged
               : ControlRoute::kFirmware;
  }
  return object_class == NV2081_BINAPI || object_class == NV2082_BINAPI_PRIVILEGED
             ? ControlRoute::kFirmwareByObject
             : ControlRoute::kTable;
}

// Returns true for a command that the driver hands to the firmware for every caller, on an object
// of the class in its number: one with bit 15 on a subdevice, or any on an object of NV2081_BINAPI.
[[nodiscard]] constexpr bool IsFirmwareControl(NvU32 cmd) {
  const NvU32 cls = cmd >> 16U;
  const ControlRoute route = RouteOf(cmd, cls);
  return (cls == NV20_SUBDEVICE_0 && route == ControlRoute::kFirmware) ||
         (cls == NV2081_BINAPI && route == ControlRoute::kFirmwareByObject);
}

}  // namespace cgpu::rm

#endif  // CGPU_RM_CONTROL_ROUTE_H_
