// cgpu-burn: a load for a card, to see a share at work. Statically linked, so that it runs in any
// container.
#include <cstdio>
#include <string>
#include <vector>

#include "apps/cgpu-burn/burn.h"

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
  const auto load = MakeTimedLoad(line->options.shape);
  if (!load.ok()) {
    return Fail(load.error());
  }
  const auto burnt = Burn(**load, line->options);
  return burnt.ok() ? 0 : Fail(burnt.error());
}
