// cgpu-exporter: one per host. Shows Prometheus who uses the host's GPUs, and for what; see
// exporter/exposition.h.
#include <malloc.h>
#include <unistd.h>

#include <string>

#include "base/log.h"
#include "cli/command_line.h"
#include "exporter/collector.h"
#include "exporter/exposition.h"
#include "exporter/gather.h"
#include "exporter/server.h"
#include "host/registry.h"
#include "os/end_signals.h"
#include "os/service.h"
#include "runtime/settings.h"

namespace cgpu::exporter {
namespace {

// Returns the token that scrapes must carry; empty: none.
Result<std::string> TokenFor(const Address& address, const Settings& settings) {
  if (!settings.exporter_token_file.empty()) {
    return ReadToken(settings.exporter_token_file);
  }
  if (!IsLoopback(address)) {
    return Error{Code::kPermission, 0,
                 settings.exporter_listen +
                     " can be reached from other hosts, and no token is asked for there",
                 "name a file with a token (exporter_token_file), or listen at 127.0.0.1"};
  }
  return std::string();
}

Result<> Run(const Settings& settings, const sigset_t& ends_by) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root may see what all containers use",
                 "start it as the service cgpu-exporter"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto address, ParseAddress(settings.exporter_listen));
  CGPU_ASSIGN_OR_RETURN(const auto token, TokenFor(address, settings));
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  Collector collector(settings.node, registry,
                      [](const std::string& sentence) { Log(LogLevel::kWarning, sentence); });
  Gatherer gatherer(settings.node, settings.max_inst, CGPU_VERSION, registry, collector);
  const auto scrape = [&]() -> Result<std::string> {
    CGPU_ASSIGN_OR_RETURN(const auto snapshot, gatherer.Take());
    return Render(snapshot, settings.exporter_dcgm);
  };
  return Serve(address, token, scrape, ends_by, TellReady);
}

}  // namespace
}  // namespace cgpu::exporter

int main(int argc, char** argv) {
  const cgpu::cli::Program app("Shows Prometheus who uses the GPUs of this host", "cgpu-exporter");
  app.SetVersion(CGPU_VERSION);
  std::string file = cgpu::kSettingsFile;
  app.AddOption("--config", file, "The file with the settings").ShowDefault();
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  // Connections' threads take turns: one heap for all of them stays small.
  (void)mallopt(M_ARENA_MAX, 1);
  const sigset_t signals = cgpu::os::BlockEndSignals();  // before there are other threads
  const auto settings = cgpu::ReadSettings(file);
  cgpu::SetLogForm("cgpu-exporter", settings.ok() && settings->log_json);
  const auto ended = settings.ok() ? cgpu::exporter::Run(*settings, signals) : settings.error();
  if (!ended.ok()) {
    cgpu::LogError(ended.error());
    return 1;
  }
  return 0;
}
