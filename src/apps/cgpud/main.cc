// cgpud: one per host. Gives containers of engines their slices; see cgpud/daemon.h.
#include <cstdio>
#include <string>

#include "base/log.h"
#include "cgpud/daemon.h"
#include "cli/command_line.h"
#include "host/shim_process.h"
#include "runtime/settings.h"
#include "version/version.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == cgpu::kBecomeShim) {
    const cgpu::Error error = cgpu::BecomeShimInScope(argv[2]);
    (void)std::fprintf(stderr, "cgpud: %s\n", cgpu::FormatError(error).c_str());
    return 1;
  }
  const cgpu::cli::Program app("The node's daemon: gives containers their slices of GPUs", "cgpud");
  app.SetVersion(cgpu::VersionText("cgpud"));
  std::string file = cgpu::kSettingsFile;
  app.AddOption("--config", file, "The file with the settings").Value("FILE").ShowDefault();
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  const auto settings = cgpu::ReadSettings(file);
  cgpu::SetLogForm("cgpud", settings.ok() && settings->log_json);
  const auto ended =
      settings.ok() ? cgpu::RunDaemon(*settings, argv, CGPU_VERSION) : settings.error();
  if (!ended.ok()) {
    cgpu::LogError(ended.error());
    return 1;
  }
  return 0;
}
