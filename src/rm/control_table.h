// The RM controls this project knows: one row per command. A command that is not here is unknown
// and gets NV_ERR_NOT_SUPPORTED from whoever decides.
//
// Pure data and look-ups; thread-safe.
#ifndef CGPU_RM_CONTROL_TABLE_H_
#define CGPU_RM_CONTROL_TABLE_H_

#include <span>
#include <string_view>

#include "rm/abi.h"
#include "rm/nv_controls.h"

namespace cgpu::rm {

struct ControlRow {
  NvU32 cmd;
  std::string_view name;
  std::string_view source;  // under src/common/sdk/nvidia/inc/ctrl/
  ByBranch size;            // the only paramsSize the driver takes; 0: no such command
  bool embedded_pointers;   // the parameters hold further addresses of the caller's memory

  [[nodiscard]] constexpr NvU32 Size(Branch branch) const { return size.At(branch); }
};

// In ascending order of cmd.
[[nodiscard]] std::span<const ControlRow> ControlRows();
[[nodiscard]] const ControlRow* FindControl(NvU32 cmd);
// 0 when the command is unknown or this branch has no such command.
[[nodiscard]] NvU32 ControlSize(const Abi& abi, NvU32 cmd);

}  // namespace cgpu::rm

#endif  // CGPU_RM_CONTROL_TABLE_H_
