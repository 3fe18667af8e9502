// How many pods a second the fragmentation-aware placement finds a place for, on one thread and
// without an API server: a recorded workload (placement_trace.h), its nodes and pods eight times
// over. Prints percentiles of the time for one pod; the last line is the rate.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "bench/placement_picker.h"
#include "bench/placement_trace.h"
#include "placement/policy.h"

namespace cgpu::bench {
namespace {

constexpr unsigned kPercent = 130;
constexpr unsigned kTimes = 8;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

int Main() {
  auto trace = ReadTrace();
  if (!trace.ok()) {
    (void)std::fprintf(stderr, "%s\n", FormatError(trace.error()).c_str());
    return 1;
  }
  const placement::Fragmentation fragmentation(placement::TypicalOf(trace->pods));
  const std::vector<placement::Node> nodes = trace->nodes;
  for (unsigned i = 1; i < kTimes; ++i) {
    for (placement::Node node : nodes) {
      node.name += "-" + std::to_string(i);
      trace->nodes.push_back(node);
    }
  }
  std::mt19937_64 random(42);
  const auto pods = Inflate(*trace, kPercent, random);
  Picker picker(trace->nodes, [&](const auto& node, const auto& request) {
    return fragmentation.Choose(node, request);
  });
  std::vector<double> took;
  const auto began = std::chrono::steady_clock::now();
  auto last = began;
  for (const placement::Request& pod : pods) {
    if (const auto place = picker.Find(pod)) {
      picker.Take(*place, pod);
    }
    const auto now = std::chrono::steady_clock::now();
    took.push_back(Seconds(now - last));
    last = now;
  }
  std::sort(took.begin(), took.end());
  std::printf("%zu nodes, %zu GPUs, %zu pods: p50 %.0f us, p99 %.0f us, worst %.1f ms\n",
              trace->nodes.size(), static_cast<std::size_t>(Capacity(trace->nodes) / 1000),
              pods.size(), took[took.size() / 2] * 1e6, took[took.size() * 99 / 100] * 1e6,
              took.back() * 1e3);
  std::printf("placement-speed: %.0f /s\n",
              static_cast<double>(pods.size()) / Seconds(last - began));
  return 0;
}

}  // namespace
}  // namespace cgpu::bench

int main() {
  return cgpu::bench::Main();
}
