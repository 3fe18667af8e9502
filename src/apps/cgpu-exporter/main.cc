// cgpu-exporter: one per host. Shows who uses the host's GPUs, and for what: Prometheus
// (exporter/exposition.h), and on a page (exporter/overview.h).
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "cli/command_line.h"
#include "exporter/collector.h"
#include "exporter/exposition.h"
#include "exporter/gather.h"
#include "exporter/overview.h"
#include "exporter/recent_events.h"
#include "host/registry.h"
#include "os/end_signals.h"
#include "os/service.h"
#include "page/server.h"
#include "runtime/settings.h"
#include "version/version.h"

namespace cgpu::exporter {
namespace {

// Time for which an overview stands: many that look at the page cost no more than one.
constexpr std::chrono::milliseconds kFresh{500};
constexpr char kMetrics[] = "text/plain; version=0.0.4; charset=utf-8";

// Answers requests, one at a time.
class Answers {
 public:
  Answers(Gatherer& gatherer, bool dcgm) : dcgm_(dcgm), gatherer_(gatherer) {}

  page::Reply Metrics() {
    const MutexLock lock(mutex_);
    const auto snapshot = gatherer_.Take();
    return snapshot.ok() ? page::Reply{200, kMetrics, Render(*snapshot, dcgm_)}
                         : Failed(snapshot.error());
  }

  page::Reply Overview() {
    const MutexLock lock(mutex_);
    if (overview_.empty() || std::chrono::steady_clock::now() >= stands_until_) {
      const auto snapshot = gatherer_.Take();
      if (!snapshot.ok()) {
        return Failed(snapshot.error());
      }
      const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
      overview_ = RenderOverview(*snapshot, events_.Read(), now.count());
      stands_until_ = std::chrono::steady_clock::now() + kFresh;
    }
    return {200, page::kJson, overview_};
  }

 private:
  static page::Reply Failed(const Error& error) {
    page::Reply reply;
    reply.status = 503;
    reply.text = FormatError(error) + "\n";
    return reply;
  }

  const bool dcgm_;
  Mutex mutex_;
  Gatherer& gatherer_ CGPU_GUARDED_BY(mutex_);
  RecentEvents events_ CGPU_GUARDED_BY(mutex_);
  std::string overview_ CGPU_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point stands_until_ CGPU_GUARDED_BY(mutex_);
};

Result<> Run(const Settings& settings, const sigset_t& ends_by) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root may see what all containers use",
                 "start it as the service cgpu-exporter"};
  }
  page::Site site;
  CGPU_ASSIGN_OR_RETURN(site.address, page::ParseAddress(settings.exporter_listen));
  CGPU_ASSIGN_OR_RETURN(site.token, page::TokenFor(site.address, settings.exporter_token_file,
                                                   "exporter_token_file"));
  site.certificate = {settings.exporter_tls_cert, settings.exporter_tls_key};
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  Collector collector(settings.node, registry,
                      [](const std::string& sentence) { Log(LogLevel::kWarning, sentence); });
  Gatherer gatherer(settings.node, settings.max_inst, CGPU_VERSION, registry, collector);
  Answers answers(gatherer, settings.exporter_dcgm);
  site.answers["/metrics"] = [&answers] { return answers.Metrics(); };
  site.answers["/api/overview"] = [&answers] { return answers.Overview(); };
  CGPU_ASSIGN_OR_RETURN(const auto server, page::Server::Open(std::move(site)));
  TellReady();
  return server->Wait(ends_by);
}

}  // namespace
}  // namespace cgpu::exporter

int main(int argc, char** argv) {
  const cgpu::cli::Program app("Shows Prometheus, and on a page, who uses the GPUs of this host",
                               "cgpu-exporter");
  app.SetVersion(cgpu::VersionText("cgpu-exporter"));
  std::string file = cgpu::kSettingsFile;
  app.AddOption("--config", file, "The file with the settings").Value("FILE").ShowDefault();
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  // Connections' threads take turns: one heap for all of them stays small.
  (void)mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): before there are other threads
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
