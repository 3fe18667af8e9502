#include "load/burn/report.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace cgpu::burn {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kNsPerMs = 1e6;
constexpr double kNsPerS = 1e9;

// Prints and flushes, so that a reader of a pipe has it at once.
[[gnu::format(printf, 1, 2)]] void Say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  (void)std::vprintf(format, values);
  va_end(values);
  (void)std::fflush(stdout);
}

}  // namespace

double Report::Milliseconds(const Done& done) const {
  return static_cast<double>(done.launches * options_.shape.launch_ns()) / kNsPerMs;
}

double Report::PerSecond(const Done& done) const {
  return done.ns == 0 ? 0 : Milliseconds(done) / (static_cast<double>(done.ns) / kNsPerS);
}

void Report::Begin(std::optional<std::uint64_t> steps) const {
  const Shape& shape = options_.shape;
  const std::string number = steps ? std::to_string(*steps) : "";
  if (options_.json) {
    Say(R"({"gpu":%u,"kernel_us":%)" PRIu64 R"(,"graph":%u,"queue":%u,"rigid":%s%s%s})"
        "\n",
        shape.gpu, shape.kernel_us, shape.graph, shape.queue, shape.rigid ? "true" : "false",
        steps ? R"(,"steps":)" : "", number.c_str());
    return;
  }
  Say("GPU %u: launches of %u x %" PRIu64 " us, %u at a time%s%s%s\n", shape.gpu, shape.graph,
      shape.kernel_us, shape.queue, steps ? "; CUDA's kernels, " : "", number.c_str(),
      steps ? " steps each" : "");
}

void Report::Second(std::uint64_t number, const Done& done) const {
  if (options_.json) {
    Say(R"({"second":%)" PRIu64 R"(,"launches":%)" PRIu64
        R"(,"kernel_ms":%.3f,"kernel_ms_per_s":%.3f})"
        "\n",
        number, done.launches, Milliseconds(done), PerSecond(done));
    return;
  }
  Say("second %" PRIu64 ": %.1f ms/s of kernels\n", number, PerSecond(done));
}

void Report::Each(std::uint64_t latency_ns) const {
  Say(options_.json ? "{\"each_us\":%.1f}\n" : "%.1f us\n",
      static_cast<double>(latency_ns) / kNsPerUs);
}

void Report::Sum(const Done& done, std::uint64_t left, const Latencies& latencies) const {
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / kNsPerUs; };
  const double seconds = static_cast<double>(done.ns) / kNsPerS;
  const double p50 = us(latencies.Percentile(50));
  const double p90 = us(latencies.Percentile(90));
  const double p99 = us(latencies.Percentile(99));
  const double most = us(latencies.most());
  if (options_.json) {
    Say(R"({"launches":%)" PRIu64 R"(,"left":%)" PRIu64
        R"(,"seconds":%.6f,"kernel_ms":%.3f,"kernel_ms_per_s":%.3f,)"
        R"("latency_us":{"p50":%.1f,"p90":%.1f,"p99":%.1f,"max":%.1f}})"
        "\n",
        done.launches, left, seconds, Milliseconds(done), PerSecond(done), p50, p90, p99, most);
    return;
  }
  Say("latency: p50 %.0f us, p90 %.0f us, p99 %.0f us, max %.0f us\n", p50, p90, p99, most);
  Say("sum: %.1f ms of kernels in %.2f s, %.1f ms/s; %" PRIu64 " launches ended, %" PRIu64
      " had not\n",
      Milliseconds(done), seconds, PerSecond(done), done.launches, left);
}

}  // namespace cgpu::burn
