// One ioctl on a file of the driver as the tracer saw it end, and the line that is written of it.
// Pure: memory of the traced program is read in tracer_unsafe.cc.
#ifndef CGPU_TESTS_GPU_TRACE_CALL_H_
#define CGPU_TESTS_GPU_TRACE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "boundary/call.h"
#include "gpu/trace/answers.h"
#include "rm/by_branch.h"

namespace cgpu::trace {

using boundary::Bytes;

// The most bytes of a control's parameters that are looked at.
inline constexpr std::size_t kShownBytes = 64;

// "ctl", "uvm", "gpu0", or the name of another device file of the driver ("nvidia-uvm-tools") for
// what /proc/PID/fd/N leads to; empty: no file of the driver's.
[[nodiscard]] std::string FileName(std::string_view link);

// Parameters in the program's memory.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // 0: there are none
};

struct Call {
  std::string file;
  int fd = -1;                // the program's number for it
  std::uint32_t request = 0;  // of nvidia-uvm; else 0
  std::uint8_t nr = 0;  // of the rest: the escape, without the wrapping of NV_ESC_IOCTL_XFER_CMD
  bool wrapped = false;
  std::uint64_t address = 0;  // of the image
  Bytes asked;                // the call's own parameters as they were; the driver changes some
  Bytes image;                // the same after the call
  Block params;   // of NV_ESC_RM_CONTROL and NV_ESC_RM_ALLOC: what their pointer leads to
  Bytes in, out;  // the first kShownBytes of them, before and after the call
  int error = 0;  // errno

  // As they were asked: of NV_ESC_RM_CONTROL the command, of NV_ESC_RM_ALLOC (also _MEMORY) the
  // class.
  [[nodiscard]] std::optional<std::uint32_t> Command() const;
  [[nodiscard]] std::optional<std::uint32_t> Class() const;
  // To the firmware, by number: bit 15, or a command of NV2081_BINAPI.
  [[nodiscard]] bool ToFirmware() const;
  // Where the status lies in the image.
  [[nodiscard]] std::optional<std::size_t> StatusAt(rm::Branch branch) const;
};

// Returns what the pointer in the image leads to.
[[nodiscard]] Block ParamsOf(const Call& call, rm::Branch branch);

enum class Shown { kNothing, kFirmware, kAll };

struct LineOptions {
  rm::Branch branch = rm::Branch::k535;  // whose sizes and offsets are taken
  bool details = false;                  // words behind the line, see Line()
  Shown bytes = Shown::kNothing;         // whose parameters are among them
};

// The line of shim/recorder.h without its end of line, with "trace" for WHO where the program was
// given `answer` in place of what the driver said, and behind that `was=` the driver's own status.
// With details further words as in tests/gpu/records/README.md: `file` `object` `parent` `device`
// `memory` `length` `flags` `fd` `form` `params` `in` `out`; and such as a record does not have:
// `cmd` and `class`, `wrapped=1` of one inside NV_ESC_IOCTL_XFER_CMD, `callflags` of NVOS54 and
// NVOS64 unless zero, `said` of an allocation that names a size, `timeout` of
// NV_ESC_RM_IDLE_CHANNELS.
[[nodiscard]] std::string Line(int process, const Call& call, const Answer* answer,
                               const LineOptions& options);

}  // namespace cgpu::trace

#endif  // CGPU_TESTS_GPU_TRACE_CALL_H_
