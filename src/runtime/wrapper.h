// cgpu-runtime stands in front of an OCI runtime. It changes the configuration of a container that
// is being made, and becomes the runtime.
//
//   a slice is asked for   cgpud gives one (protocol/creation.h), or the container is not made and
//                          the container engine is told why
//   GPU files alone        the container stays as it is, or is refused, as settings.h says
//   nothing of a GPU       the container inherits a filter that keeps GPU files from working,
//                          should it be passed any (others_filter.h); cgpud is not asked
//
// So does a process that is added to such a container.
//
// It becomes the runtime only for commands that are known to leave containers held as they are
// (arguments.h). It does not for `restore`, for which runtimes make no filter, nor for a command
// that cgpu does not know.
#ifndef CGPU_RUNTIME_WRAPPER_H_
#define CGPU_RUNTIME_WRAPPER_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu {

struct WrapperOptions {
  std::string settings_file;
  std::vector<std::string> arguments;  // the runtime's
};

// Becomes the runtime. Returns the program's exit status, and only when it cannot become the
// runtime, after saying why: on standard error, and in the log that `arguments` name, where
// container engines look.
[[nodiscard]] int BecomeRuntime(const WrapperOptions& options);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_WRAPPER_H_
