// The RM controls that this project knows: one row per command, with its size in each driver
// branch. A command that is not listed is unknown. A row does not mean that a tenant may send the
// command.
//
// The commands, and the kinds of program that send them, are those that gVisor's nvproxy found
// (google/gvisor pkg/sentry/devices/nvproxy); further ones are listed so that they are refused by
// name. Sizes, names and numbers come from the headers of NVIDIA/open-gpu-kernel-modules, access
// rights from its src/nvidia/generated/.
//
// Pure data and look-ups; thread-safe.
#ifndef CGPU_RM_CONTROL_TABLE_H_
#define CGPU_RM_CONTROL_TABLE_H_

#include <optional>
#include <span>
#include <string_view>

#include "rm/abi.h"
#include "rm/by_branch.h"
#include "rm/nv_controls.h"

namespace cgpu::rm {

// The callers that the driver lets call, by its newest branch that has the command. Some commands
// need further access rights. For commands that ended with 550, kRoot may also mean kKernel.
enum class ControlAccess : NvU8 { kAny, kRoot, kKernel };

// Bits of ControlRow::asked_by: the kinds of program nvproxy admits the command for.
inline constexpr NvU8 kAskedByNone = 0;
inline constexpr NvU8 kAskedByCompute = 1;  // CUDA, NVML, nvidia-smi
inline constexpr NvU8 kAskedByGraphics = 2;
inline constexpr NvU8 kAskedByVideo = 4;
inline constexpr NvU8 kAskedByProfilers = 8;
inline constexpr NvU8 kAskedByFabric = 16;  // management of memory between hosts

// Our own limit, in bytes, on the parameters of a firmware control whose size is not on record. The
// driver has none (rmapi_gss_legacy_control.c); the largest one recorded has 2192 bytes.
inline constexpr NvU32 kMaxFirmwareBytes = 4096;

struct ControlRow {
  NvU32 cmd;
  std::string_view name;
  std::string_view source;  // under src/common/sdk/nvidia/inc/ctrl/; empty: in no public header
  std::string_view params;  // the structure; empty: none, or none in a public header
  ByBranch size;            // the only paramsSize the driver takes
  ByBranch known;           // 0: the branch has no such command
  bool embedded_pointers;   // the parameters hold further addresses; see EmbeddedPointers()
  ControlAccess access;
  NvU8 asked_by;
  // Not 0: the firmware's own command (ctrl_firmware.inc). On branches where `size` is 0 its
  // parameters have 1 to this many bytes; the exact number is unknown.
  NvU32 most_bytes;

  // Returns 0 when the branch has no such command, the command has no parameters, or their size is
  // not known (`most_bytes`).
  [[nodiscard]] constexpr NvU32 Size(Branch branch) const { return size.At(branch); }
  [[nodiscard]] constexpr bool Known(Branch branch) const { return known.At(branch) != 0; }
  // Returns true if the parameters may have this many bytes.
  [[nodiscard]] constexpr bool Takes(Branch branch, NvU32 bytes) const {
    const NvU32 expected = Size(branch);
    return expected == 0 && most_bytes != 0 ? bytes != 0 && bytes <= most_bytes : bytes == expected;
  }
};

// Returns the rows, ascending by cmd within each kind of object.
[[nodiscard]] std::span<const ControlRow> ControlRows();
[[nodiscard]] const ControlRow* FindControl(NvU32 cmd);
[[nodiscard]] bool ControlKnown(const Abi& abi, NvU32 cmd);
// Returns ControlRow::Size(); 0 when the command is unknown.
[[nodiscard]] NvU32 ControlSize(const Abi& abi, NvU32 cmd);
// Returns ControlRow::Takes(); false when the command is unknown.
[[nodiscard]] bool ControlTakes(const Abi& abi, NvU32 cmd, NvU32 bytes);

// The rule by which the driver computes the bytes behind an embedded pointer.
enum class PointerShape : NvU8 {
  kList,     // count elements of stride bytes
  kSquare,   // count * count elements
  kIgnored,  // the driver does not follow it
};
enum class PointerDirection : NvU8 { kIn, kOut, kInOut };  // kOut: the driver begins with zeros

// An address of the caller's memory inside the parameters of a command. At NULL the driver reads
// and writes nothing. From src/nvidia/src/kernel/rmapi/embedded_param_copy.c and
// src/nvidia/interface/deprecated/rmapi_deprecated_control.c.
struct EmbeddedPointer {
  NvU32 cmd = 0;
  NvU32 pointer_offset = 0;  // of the NvP64
  NvU32 count_offset = 0;    // of the NvU32 that counts elements
  NvU32 stride = 0;
  PointerShape shape{};
  PointerDirection direction{};
  Branch since = Branch::k535;

  // Returns nullopt for more than the driver copies, which it answers with NV_ERR_INVALID_ARGUMENT.
  [[nodiscard]] std::optional<NvU32> Bytes(NvU32 count) const;
};
// RMAPI_PARAM_COPY_MAX_PARAMS_SIZE (src/nvidia/inc/kernel/rmapi/param_copy.h).
inline constexpr NvU32 kMaxEmbeddedBytes = 1024 * 1024;

// Returns the pointers of a command, in the order of the driver's own list; some may be of later
// branches (`since`). If the row says embedded_pointers and this is empty, its pointers are not
// described here: do not execute it.
[[nodiscard]] std::span<const EmbeddedPointer> EmbeddedPointers(NvU32 cmd);

}  // namespace cgpu::rm

#endif  // CGPU_RM_CONTROL_TABLE_H_
