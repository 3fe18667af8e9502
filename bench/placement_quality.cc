// How much of a cluster's GPUs is in use after more pods have come than it has room for: pods of a
// recorded workload (placement_trace.h) up to 130 % of the cluster, one after the other, ten
// orders. Prints each policy; the last line is the mean of the fragmentation-aware one.
#include <cmath>
#include <cstdio>

#include "bench/placement_picker.h"
#include "bench/placement_trace.h"
#include "placement/policy.h"

namespace cgpu::bench {
namespace {

constexpr unsigned kPercent = 130;
constexpr unsigned kSeeds = 10;

double Place(const Trace& trace, const std::vector<placement::Request>& pods,
             Picker::Choose choose) {
  Picker picker(trace.nodes, std::move(choose));
  std::uint64_t placed = 0;
  for (const placement::Request& pod : pods) {
    if (const auto place = picker.Find(pod)) {
      picker.Take(*place, pod);
      placed += Demand(pod);
    }
  }
  return 100.0 * static_cast<double>(placed) / static_cast<double>(Capacity(trace.nodes));
}

struct Figures {
  double mean = 0;
  double deviation = 0;
};

Figures Of(const std::vector<double>& values) {
  Figures figures;
  for (const double value : values) {
    figures.mean += value / static_cast<double>(values.size());
  }
  for (const double value : values) {
    figures.deviation += (value - figures.mean) * (value - figures.mean);
  }
  figures.deviation = std::sqrt(figures.deviation / static_cast<double>(values.size() - 1));
  return figures;
}

int Main() {
  const auto trace = ReadTrace();
  if (!trace.ok()) {
    (void)std::fprintf(stderr, "%s\n", FormatError(trace.error()).c_str());
    return 1;
  }
  const placement::Fragmentation fragmentation(placement::TypicalOf(trace->pods));
  std::vector<double> binpack;
  std::vector<double> spread;
  std::vector<double> aware;
  for (unsigned seed = 42; seed < 42 + kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const auto pods = Inflate(*trace, kPercent, random);
    binpack.push_back(Place(*trace, pods, placement::ChooseBinpack));
    spread.push_back(Place(*trace, pods, [](const auto& node, const auto& request) {
      return placement::ChooseSpread(node, request, {});
    }));
    aware.push_back(Place(*trace, pods, [&](const auto& node, const auto& request) {
      return fragmentation.Choose(node, request);
    }));
    std::printf("seed %u: binpack %.2f, spread %.2f, fragmentation %.2f %%\n", seed, binpack.back(),
                spread.back(), aware.back());
  }
  for (const auto& [name, values] :
       {std::pair("binpack", binpack), {"spread", spread}, {"fragmentation", aware}}) {
    const Figures figures = Of(values);
    std::printf("%s: %.2f +- %.2f %%\n", name, figures.mean, figures.deviation);
  }
  std::printf("placement-quality: %.2f %%\n", Of(aware).mean);
  return 0;
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  return cgpu::bench::Main();
}
