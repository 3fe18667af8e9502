#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/cgpu/smi/report.h"
#include "apps/cgpu/smi/text.h"

namespace cgpu::smi {
namespace {

bool Names(const std::string& id, const Gpu& gpu) {
  const auto address = ParseBus(id);
  return id == std::to_string(gpu.index) || id == gpu.uuid ||
         (address && address == ParseBus(gpu.bus_id));
}

}  // namespace

Result<> Select(Report& report, const std::string& ids) {
  std::vector<bool> chosen(report.gpus.size());
  for (const std::string& id : Split(ids)) {
    const auto gpu =
        std::ranges::find_if(report.gpus, [&](const Gpu& one) { return Names(id, one); });
    if (gpu == report.gpus.end()) {
      return Error{Code::kNotFound, 0, "No devices were found: there is no GPU \"" + id + "\"",
                   "`cgpu smi -L` lists them; -i takes an index, a UUID or a PCI address"};
    }
    chosen[static_cast<std::size_t>(std::distance(report.gpus.begin(), gpu))] = true;
  }
  std::vector<Gpu> gpus;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) {
      gpus.push_back(std::move(report.gpus[i]));
    }
  }
  report.gpus = std::move(gpus);
  return {};
}

}  // namespace cgpu::smi
