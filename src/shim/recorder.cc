#include "shim/recorder.h"

#include <unistd.h>

#include <cstdio>

#include "boundary/describe.h"

namespace cgpu::shim {
namespace {

std::string FileName(const boundary::File& file) {
  switch (file.kind) {
    case boundary::FileKind::kControl:
      return "ctl";
    case boundary::FileKind::kUvm:
      return "uvm";
    case boundary::FileKind::kGpu:
      break;
  }
  return "gpu" + std::to_string(file.minor);
}

}  // namespace

void Recorder::Call(const os::Process& process, const boundary::Call& call, int error,
                    bool executed) const {
  if (on()) {
    Line(process, FileName(call.file) + " " + boundary::Describe(call) + " " +
                      boundary::DescribeStatus(call) + " " + std::to_string(error) +
                      (executed ? " driver" : " cgpu"));
  }
}

void Recorder::Refused(const os::Process& process, std::uint32_t request, int error) const {
  if (on()) {
    char text[64];
    (void)std::snprintf(text, sizeof(text), "other 0x%x - %d cgpu", request, error);
    Line(process, text);
  }
}

void Recorder::Mapping(const os::Process& process, std::uint64_t length, int error) const {
  if (on()) {
    Line(process, "uvm mmap " + std::to_string(length) + " - " + std::to_string(error) +
                      (error == 0 ? " kernel" : " cgpu"));
  }
}

void Recorder::Line(const os::Process& process, const std::string& text) const {
  const std::string line = std::to_string(process.ns_pid) + " " + text + "\n";
  // The file was opened for appending, so lines do not mix.
  (void)!write(file_.get(), line.data(), line.size());
}

}  // namespace cgpu::shim
