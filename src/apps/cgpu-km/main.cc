// cgpu-km: the tree at /run/cgpu/km, in the shape of cGPU's /proc/cgpu_km; see km/server.h.
#include <cstdio>
#include <string>

#include "cli/command_line.h"
#include "km/server.h"
#include "runtime/settings.h"

int main(int argc, char** argv) {
  const cgpu::cli::Program app(
      "Shows slices as files at /run/cgpu/km, as cGPU does in /proc/cgpu_km", "cgpu-km");
  app.SetVersion(CGPU_VERSION);
  std::string file = cgpu::kSettingsFile;
  app.AddOption("--config", file, "The file with the settings").ShowDefault();
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  const auto settings = cgpu::ReadSettings(file);
  const auto ended =
      settings.ok() ? cgpu::km::ServeTree(*settings, CGPU_VERSION) : settings.error();
  if (!ended.ok()) {
    (void)std::fprintf(stderr, "cgpu-km: %s\n", cgpu::FormatError(ended.error()).c_str());
    return 1;
  }
  return 0;
}
