// cgpu-burn: a load for a GPU, to see a share at work. It needs nothing but a libc, and CUDA's
// library on a real GPU.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "load/burn/burn.h"

namespace {

int Fail(const cgpu::Error& error) {
  (void)std::fprintf(stderr, "cgpu-burn: %s\n", cgpu::FormatError(error).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cgpu::burn;  // NOLINT(google-build-using-namespace): this file is its main
  const auto line = ParseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (!line.ok()) {
    return Fail(line.error());
  }
  if (line->text) {
    (void)std::fputs(line->text->c_str(), stdout);
    return 0;
  }
  TakeSignals();
  const auto load = MakeLoad(line->options.shape);
  if (!load.ok()) {
    return Fail(load.error());
  }
  const auto burnt = Burn(**load, line->options);
  const int status = burnt.ok() ? 0 : Fail(burnt.error());
  // At a normal end CUDA's library would wait for everything that is queued.
  std::_Exit(status);
}
