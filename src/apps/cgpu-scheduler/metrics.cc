#include "apps/cgpu-scheduler/metrics.h"

#include <chrono>
#include <string_view>
#include <vector>

#include "fleet/ask.h"
#include "page/access.h"

namespace cgpu::kube {
namespace {

double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Reads the token anew each time: somebody may renew it.
std::vector<Result<std::string>> Ask(const std::vector<fleet::Exporter>& exporters,
                                     const std::string& token_file) {
  const auto token =
      token_file.empty() ? Result<std::string>(std::string()) : page::ReadToken(token_file);
  return token.ok() ? fleet::AskExporters(exporters, *token)
                    : std::vector<Result<std::string>>(exporters.size(), token.error());
}

}  // namespace

Metrics::Metrics(const Options& options, const Api& api,
                 const std::function<void(const std::string&)>& log)
    : token_file_(options.exporter_token_file),
      pods_(options.exporters),
      fleet_(pods_,
             [this](const std::vector<fleet::Exporter>& exporters) {
               return Ask(exporters, token_file_);
             }),
      custom_(pods_, fleet_),
      follows_front_proxy_(
          api, fleet::kFrontProxyPath,
          {[this](std::string_view json) { front_proxy_.Set(json); },
           [this](const std::string&) { front_proxy_.Set(""); }, [] {}, log, false}) {}

std::string Metrics::Overview() {
  return fleet_.Overview(UnixTime());
}

fleet::MetricsAnswer Metrics::Answer(const fleet::MetricsQuery& query) {
  return custom_.Answer(query, UnixTime());
}

}  // namespace cgpu::kube
