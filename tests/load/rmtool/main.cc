// rmtool: the raw client of the driver as a program. It is statically linked, so that no library
// can be put under it and it runs in any container.
#include <cstdio>
#include <string>
#include <vector>

#include "load/rmtool/options.h"
#include "load/rmtool/verbs.h"

int main(int argc, char** argv) {
  using namespace cgpu::rmtool;  // NOLINT(google-build-using-namespace): this file is its main
  const cgpu::Result<Options> options =
      ParseOptions(std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok()) {
    return Fail(options.error());
  }
  switch (options->verb) {
    case Verb::kInfo:
      return Info(*options);
    case Verb::kAlloc:
    case Verb::kHold:
      return Alloc(*options);
    case Verb::kRawAlloc:
      return RawAlloc(*options);
    case Verb::kRawIoctl:
      return RawIoctl(*options);
    case Verb::kHelp:
      break;
  }
  std::fputs(HelpText(), stdout);
  return kWorked;
}
