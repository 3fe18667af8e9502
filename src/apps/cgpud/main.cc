// cgpud: one per host. Gives containers of engines their slices; see node/daemon.h.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "launcher/shim_process.h"
#include "node/daemon.h"
#include "runtime/settings.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == cgpu::kBecomeShim) {
    const cgpu::Error error = cgpu::BecomeShimInScope(argv[2]);
    (void)std::fprintf(stderr, "cgpud: %s\n", cgpu::FormatError(error).c_str());
    return 1;
  }
  CLI::App app("The node's daemon: gives containers their slices of GPUs", "cgpud");
  app.set_version_flag("--version", CGPU_VERSION);
  std::string file = cgpu::kSettingsFile;
  app.add_option("--config", file, "The file with the settings")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto settings = cgpu::ReadSettings(file);
  const auto ended = settings.ok() ? cgpu::RunDaemon(*settings, argv) : settings.error();
  if (!ended.ok()) {
    (void)std::fprintf(stderr, "cgpud: %s\n", cgpu::FormatError(ended.error()).c_str());
    return 1;
  }
  return 0;
}
