#include "rm/control_table.h"

#include <algorithm>
#include <array>

#include "rm/nv_ctrl.h"

namespace cgpu::rm {
namespace {

#define CGPU_CTRL(cmd, source, params, embedded) {cmd, #cmd, source, sizeof(params), embedded}
#define CGPU_CTRL_SIZE(cmd, source, embedded, ...) \
  {cmd, #cmd, source, ByBranch(__VA_ARGS__), embedded}

// Sources are under src/common/sdk/nvidia/inc/ctrl/.
constexpr auto kRows = std::to_array<ControlRow>({
    CGPU_CTRL(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, "ctrl0000/ctrl0000system.h",
              NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS, true),
    CGPU_CTRL_SIZE(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, "ctrl0000/ctrl0000system.h", false,
                   776, {{Branch::k570, 1032}}),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_GET_ID_INFO, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_GET_ID_INFO_PARAMS, true),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS, false),
    CGPU_CTRL_SIZE(NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, "ctrl0000/ctrl0000gpu.h", false, 256,
                   {{Branch::k580, 384}}),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_ATTACH_IDS, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_ATTACH_IDS_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_DETACH_IDS, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_DETACH_IDS_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_GET_PCI_INFO, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_GET_UUID_INFO, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID, "ctrl0000/ctrl0000gpu.h",
              NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS, false),
    CGPU_CTRL_SIZE(NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS, "ctrl0000/ctrl0000gpu.h", false, 0,
                   {{Branch::k550, 3076}}),
    CGPU_CTRL(NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, "ctrl0000/ctrl0000client.h",
              NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS, "ctrl0000/ctrl0000client.h",
              NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_CLIENT_GET_CHILD_HANDLE, "ctrl0000/ctrl0000client.h",
              NV0000_CTRL_CMD_CLIENT_GET_CHILD_HANDLE_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_CLIENT_OBJECTS_ARE_DUPLICATES, "ctrl0000/ctrl0000client.h",
              NV0000_CTRL_CLIENT_OBJECTS_ARE_DUPLICATES_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, "ctrl0000/ctrl0000unix.h",
              NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, "ctrl0000/ctrl0000unix.h",
              NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS, false),
    CGPU_CTRL_SIZE(NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, "ctrl0000/ctrl0000unix.h", false,
                   76, {{Branch::k550, 80}}),
    CGPU_CTRL(NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, "ctrl0000/ctrl0000unix.h",
              NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, "ctrl0000/ctrl0000unix.h",
              NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS, false),
    CGPU_CTRL(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, "ctrl0000/ctrl0000unix.h",
              NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS, false),
    CGPU_CTRL(NV0080_CTRL_CMD_GPU_GET_CLASSLIST, "ctrl0080/ctrl0080gpu.h",
              NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS, true),
    CGPU_CTRL(NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, "ctrl0080/ctrl0080gpu.h",
              NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS, false),
    CGPU_CTRL_SIZE(NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2, "ctrl0080/ctrl0080gpu.h", false, 644,
                   {{Branch::k550, 700}, {Branch::k570, 404}, {Branch::k580, 804}}),
    CGPU_CTRL(NV0080_CTRL_CMD_FIFO_GET_ENGINE_CONTEXT_PROPERTIES, "ctrl0080/ctrl0080fifo.h",
              NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS, false),
    CGPU_CTRL_SIZE(NV2080_CTRL_CMD_GPU_GET_NAME_STRING, "ctrl2080/ctrl2080gpu.h", false, 132,
                   {{Branch::k595, 68}}),
    CGPU_CTRL(NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, "ctrl2080/ctrl2080gpu.h",
              NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_GPU_GET_GID_INFO, "ctrl2080/ctrl2080gpu.h",
              NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_GPU_GET_PIDS, "ctrl2080/ctrl2080gpu.h",
              NV2080_CTRL_GPU_GET_PIDS_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_GPU_GET_PID_INFO, "ctrl2080/ctrl2080gpu.h",
              NV2080_CTRL_GPU_GET_PID_INFO_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, "ctrl2080/ctrl2080fifo.h",
              NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_GR_GET_INFO, "ctrl2080/ctrl2080gr.h", NV2080_CTRL_GR_GET_INFO_PARAMS,
              true),
    CGPU_CTRL(NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE, "ctrl2080/ctrl2080gr.h",
              NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS, false),
    CGPU_CTRL_SIZE(NV2080_CTRL_CMD_GR_GET_INFO_V2, "ctrl2080/ctrl2080gr.h", false, 448,
                   {{Branch::k550, 472}, {Branch::k570, 488}, {Branch::k590, 496}}),
    CGPU_CTRL(NV2080_CTRL_CMD_GR_GET_ENGINE_CONTEXT_PROPERTIES, "ctrl2080/ctrl2080gr.h",
              NV2080_CTRL_GR_GET_ENGINE_CONTEXT_PROPERTIES_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_FB_GET_INFO, "ctrl2080/ctrl2080fb.h", NV2080_CTRL_FB_GET_INFO_PARAMS,
              true),
    CGPU_CTRL_SIZE(NV2080_CTRL_CMD_FB_GET_INFO_V2, "ctrl2080/ctrl2080fb.h", false, 436,
                   {{Branch::k550, 444}, {Branch::k570, 460}, {Branch::k580, 1028}}),
    CGPU_CTRL_SIZE(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, "ctrl2080/ctrl2080fb.h", false, 776,
                   {{Branch::k580, 904}}),
    CGPU_CTRL(NV2080_CTRL_CMD_MC_GET_ARCH_INFO, "ctrl2080/ctrl2080mc.h",
              NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS, false),
    CGPU_CTRL(NV2080_CTRL_CMD_BUS_GET_PCI_INFO, "ctrl2080/ctrl2080bus.h",
              NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS, false),
    CGPU_CTRL_SIZE(NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, "ctrla06c.h", false, 2, {{Branch::k580, 3}}),
    CGPU_CTRL(NVA06C_CTRL_CMD_SET_TIMESLICE, "ctrla06c.h", NVA06C_CTRL_TIMESLICE_PARAMS, false),
    CGPU_CTRL(NVA06C_CTRL_CMD_GET_TIMESLICE, "ctrla06c.h", NVA06C_CTRL_TIMESLICE_PARAMS, false),
    CGPU_CTRL(NVA06C_CTRL_CMD_PREEMPT, "ctrla06c.h", NVA06C_CTRL_PREEMPT_PARAMS, false),
    CGPU_CTRL(NVA06C_CTRL_CMD_GET_INFO, "ctrla06c.h", NVA06C_CTRL_GET_INFO_PARAMS, false),
    CGPU_CTRL(NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, "ctrla06c.h",
              NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS, false),
    CGPU_CTRL(NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, "ctrlc36f.h",
              NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS, false),
});

#undef CGPU_CTRL
#undef CGPU_CTRL_SIZE

constexpr bool kRowsAscend =
    std::is_sorted(kRows.begin(), kRows.end(),
                   [](const ControlRow& x, const ControlRow& y) { return x.cmd < y.cmd; });
static_assert(kRowsAscend);

}  // namespace

std::span<const ControlRow> ControlRows() {
  return kRows;
}

const ControlRow* FindControl(NvU32 cmd) {
  const auto* row = std::lower_bound(kRows.begin(), kRows.end(), cmd,
                                     [](const ControlRow& x, NvU32 y) { return x.cmd < y; });
  return row != kRows.end() && row->cmd == cmd ? row : nullptr;
}

NvU32 ControlSize(const Abi& abi, NvU32 cmd) {
  const ControlRow* row = FindControl(cmd);
  return row == nullptr ? 0 : row->Size(abi.branch);
}

}  // namespace cgpu::rm
