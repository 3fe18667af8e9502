// Runs a program and follows it, its children and its threads by ptrace: writes a line for each
// call that ends on a file of the driver's, and gives the answers that it was told in place of the
// driver's. The driver is asked in any case. Needs no user notification and nothing of cgpu.
//
// Lines of other kinds:
//
//   PROCESS FILE open - - ERRNO kernel [file=FD]   of a device file, also one that is not there
//   PROCESS path open PATH ERRNO                   of a file below /proc/driver/nvidia
//   PROCESS path mknod PATH ERRNO                  of a device file
//   PROCESS step NAME                              the program has named its thread ">NAME"
//
// One thread; the program's standard streams are its own.
#ifndef CGPU_TESTS_GPU_TRACE_TRACER_H_
#define CGPU_TESTS_GPU_TRACE_TRACER_H_

#include <cstdio>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/trace/answers.h"
#include "gpu/trace/call.h"

namespace cgpu::trace {

struct Options {
  std::vector<std::string> command;
  std::vector<Answer> answers;
  LineOptions line;
  std::FILE* out = stderr;  // a borrow
};

// The program's exit status as a shell says it. Returns when all that it started has ended.
[[nodiscard]] Result<int> Trace(const Options& options);

}  // namespace cgpu::trace

#endif  // CGPU_TESTS_GPU_TRACE_TRACER_H_
