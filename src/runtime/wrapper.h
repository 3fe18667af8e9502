// cgpu-runtime: stands in front of an OCI runtime. It changes the configuration of a container that
// is being made, and becomes the runtime.
//
//   a slice is asked for   the node's daemon gives one (registry/creation.h), or the container is
//                          not made and the engine is told why
//   files of GPUs without  it stays as it is, or is refused, as settings.h says
//   nothing of a GPU       a filter that keeps files of GPUs from working, should it be passed any;
//                          nobody is asked
//
// It does not become the runtime for commands that are not known to leave containers held as they
// are (arguments.h): for `restore`, of which runtimes make no filter, as little as for one that
// nobody here knows.
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

// Returns only when it cannot become the runtime, after saying why: on standard error, and in the
// log that `arguments` name, where engines look. The program's exit status.
[[nodiscard]] int BecomeRuntime(const WrapperOptions& options);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_WRAPPER_H_
