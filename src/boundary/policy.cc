#include "boundary/policy.h"

#include <algorithm>
#include <array>

#include "rm/nv_alloc.h"
#include "rm/nv_classes.h"
#include "rm/nv_controls.h"
#include "rm/nv_ctrl.h"
#include "rm/nv_structs.h"

namespace cgpu::boundary {
namespace {

constexpr auto kClasses = std::to_array<ClassRule>({
    {rm::NV01_MEMORY_LOCAL_USER, ClassEffect::kVidmem},
    {rm::NV01_MEMORY_SYSTEM, ClassEffect::kPlain},
    {rm::NV01_MEMORY_VIRTUAL, ClassEffect::kPlain},
    {rm::NV01_EVENT, ClassEffect::kPlain},
    {rm::NV01_EVENT_OS_EVENT, ClassEffect::kPlain},
    {rm::NV01_DEVICE_0, ClassEffect::kDevice},
    {rm::NV20_SUBDEVICE_0, ClassEffect::kPlain},
    {rm::FERMI_VASPACE_A, ClassEffect::kPlain},
    {rm::FERMI_CONTEXT_SHARE_A, ClassEffect::kPlain},
    {rm::KEPLER_CHANNEL_GROUP_A, ClassEffect::kChannelGroup},
    {rm::VOLTA_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::TURING_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::AMPERE_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::HOPPER_CHANNEL_GPFIFO_A, ClassEffect::kChannel},
    {rm::VOLTA_USERMODE_A, ClassEffect::kPlain},
    {rm::TURING_USERMODE_A, ClassEffect::kPlain},
    {rm::AMPERE_USERMODE_A, ClassEffect::kPlain},
    {rm::HOPPER_USERMODE_A, ClassEffect::kPlain},
});

constexpr auto kControls = std::to_array<ControlRule>({
    // Client (NV0000)
    {rm::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, ControlEffect::kPass},
    {rm::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ControlEffect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, ControlEffect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS, ControlEffect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_UUID_INFO, ControlEffect::kView},
    {rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO, ControlEffect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_ID_INFO_PARAMS, gpuId)},
    {rm::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, ControlEffect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS, gpuId)},
    {rm::NV0000_CTRL_CMD_GPU_GET_PCI_INFO, ControlEffect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS, gpuId)},
    {rm::NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID, ControlEffect::kGpuId,
     offsetof(rm::NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS, gpuId)},
    {rm::NV0000_CTRL_CMD_GPU_ATTACH_IDS, ControlEffect::kGpuIdList, 0},
    {rm::NV0000_CTRL_CMD_GPU_DETACH_IDS, ControlEffect::kGpuIdList, 0},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS, ControlEffect::kClient,
     offsetof(rm::NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS, hClient)},
    {rm::NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, ControlEffect::kPass},
    {rm::NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, ControlEffect::kExport},
    {rm::NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, ControlEffect::kImport},
    {rm::NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, ControlEffect::kExportInfo},
    // Subdevice (NV2080)
    {rm::NV2080_CTRL_CMD_GPU_GET_NAME_STRING, ControlEffect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_GID_INFO, ControlEffect::kPass},
    {rm::NV2080_CTRL_CMD_GPU_GET_PIDS, ControlEffect::kView},
    {rm::NV2080_CTRL_CMD_GPU_GET_PID_INFO, ControlEffect::kView},
    {rm::NV2080_CTRL_CMD_FB_GET_INFO, ControlEffect::kView},
    {rm::NV2080_CTRL_CMD_FB_GET_INFO_V2, ControlEffect::kView},
    {rm::NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, ControlEffect::kView},
    {rm::NV2080_CTRL_CMD_BUS_GET_PCI_INFO, ControlEffect::kPass},
    // Channel group (NVA06C)
    {rm::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, ControlEffect::kPass},
    {rm::NVA06C_CTRL_CMD_SET_TIMESLICE, ControlEffect::kSwallow},
});

}  // namespace

const ClassRule* FindClassRule(std::uint32_t cls) {
  const auto* found = std::find_if(kClasses.begin(), kClasses.end(),
                                   [&](const ClassRule& rule) { return rule.number == cls; });
  return found == kClasses.end() ? nullptr : found;
}

const ControlRule* FindControlRule(std::uint32_t command) {
  const auto* found =
      std::find_if(kControls.begin(), kControls.end(),
                   [&](const ControlRule& rule) { return rule.command == command; });
  return found == kControls.end() ? nullptr : found;
}

bool IsClientClass(std::uint32_t cls) {
  return cls == rm::NV01_ROOT || cls == rm::NV01_ROOT_NON_PRIV || cls == rm::NV01_ROOT_CLIENT;
}

bool IsDriverChosenClient(std::uint32_t handle) {
  return handle >= rm::RS_CLIENT_HANDLE_BASE &&
         handle < rm::RS_CLIENT_INTERNAL_HANDLE_BASE + rm::RS_CLIENT_HANDLE_MAX;
}

std::uint32_t VidHeapClass(std::uint32_t flags, std::uint32_t attr, std::uint32_t attr2) {
  if ((flags & rm::NVOS32_ALLOC_FLAGS_VIRTUAL) != 0) {
    return rm::NV50_MEMORY_VIRTUAL;
  }
  if (rm::NVOS32_ATTR2_USE_EGM.Get(attr2) != 0) {
    return rm::NV_MEMORY_EXTENDED_USER;
  }
  return rm::NVOS32_ATTR_LOCATION.Get(attr) == rm::NVOS32_ATTR_LOCATION_VIDMEM
             ? rm::NV01_MEMORY_LOCAL_USER
             : rm::NV01_MEMORY_SYSTEM;
}

}  // namespace cgpu::boundary
