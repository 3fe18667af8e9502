// cgpu-runtime: the program that container engines call in place of runc or crun
// (runtime/wrapper.h), with their arguments. `--cgpu-config FILE` before them names another file of
// settings. A container's configuration makes the runtime call `hook` (runtime/hook.h), and `prove
// ID` in the container ID, under its filter (sandbox/proof.h).
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/hook.h"
#include "runtime/settings.h"
#include "runtime/wrapper.h"
#include "sandbox/proof.h"

namespace {

constexpr unsigned kProofSeconds = 60;

// Reads to the end, so that a runtime that writes the container's state to a pipe does not find it
// closed.
void ReadAll(int fd) {
  char piece[4096];
  while (read(fd, piece, sizeof(piece)) > 0) {
  }
}

// Returns the exit status of a hook.
int Ended(const cgpu::Result<>& done) {
  if (done.ok()) {
    return 0;
  }
  (void)std::fprintf(stderr, "cgpu: %s\n", cgpu::FormatError(done.error()).c_str());
  return 1;
}

int Prove(const std::vector<std::string>& arguments) {
  alarm(kProofSeconds);  // the process that has the listener need not answer
  ReadAll(STDIN_FILENO);
  return Ended(cgpu::sandbox::ProveFilter(arguments.empty() ? "" : arguments.front()));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!arguments.empty() && arguments[0] == "hook") {
    arguments.erase(arguments.begin());
    return Ended(cgpu::RunHook(arguments, STDIN_FILENO));
  }
  if (!arguments.empty() && arguments[0] == "prove") {
    arguments.erase(arguments.begin());
    return Prove(arguments);
  }
  cgpu::WrapperOptions options;
  options.settings_file = cgpu::kSettingsFile;
  if (arguments.size() >= 2 && arguments[0] == "--cgpu-config") {
    options.settings_file = arguments[1];
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  options.arguments = std::move(arguments);
  return cgpu::BecomeRuntime(options);
}
