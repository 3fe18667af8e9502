// Records the sequence of calls of a container, for bug reports and for learning what programs ask
// of the driver: which call, its size, its answer, and who gave it. Records nothing of its content.
//
// One line per call, in the order in which they ended:
//
//   PROCESS FILE CALL SIZE STATUS ERRNO WHO
//   3 ctl NV_ESC_RM_CONTROL NV2080_CTRL_CMD_FB_GET_INFO_V2 444 0x0 0 driver
//   3 uvm UVM_TOOLS_FLUSH_EVENTS 4 0x56 0 cgpu
//   3 other 0xc0204611 - 25 cgpu
//
// PROCESS is its number in the container; WHO gave the answer. Thread-safe. A line is written as a
// whole or not at all.
#ifndef CGPU_SHIM_RECORDER_H_
#define CGPU_SHIM_RECORDER_H_

#include <string>

#include "base/fd.h"
#include "boundary/call.h"
#include "os/process.h"

namespace cgpu::shim {

class Recorder {
 public:
  // `file`: a regular file, to be appended to. Invalid: nothing is recorded.
  explicit Recorder(UniqueFd file) : file_(std::move(file)) {}

  [[nodiscard]] bool on() const { return file_.valid(); }
  [[nodiscard]] int fd() const { return file_.get(); }

  void Call(const os::Process& process, const boundary::Call& call, int error, bool executed) const;
  // Records a call that was refused before it was decoded.
  void Refused(const os::Process& process, std::uint32_t request, int error) const;
  // Records an mmap that could make managed memory.
  void Mapping(const os::Process& process, std::uint64_t length, int error) const;

 private:
  void Line(const os::Process& process, const std::string& text) const;

  const UniqueFd file_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RECORDER_H_
