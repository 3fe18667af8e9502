#include "apps/cgpu-burn/report.h"

#include <fmt/core.h>

#include <cstdio>

namespace cgpu::burn {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kNsPerMs = 1e6;
constexpr double kNsPerS = 1e9;

// Prints and flushes, so that a reader of a pipe has it at once.
void Say(const std::string& text) {
  (void)std::fputs(text.c_str(), stdout);
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
  if (options_.json) {
    Say(fmt::format(R"({{"card":{},"kernel_us":{},"graph":{},"queue":{},"rigid":{}{}}})"
                    "\n",
                    shape.card, shape.kernel_us, shape.graph, shape.queue, shape.rigid,
                    steps ? fmt::format(R"(,"steps":{})", *steps) : ""));
    return;
  }
  Say(fmt::format("card {}: launches of {} x {} us, {} at a time{}\n", shape.card, shape.graph,
                  shape.kernel_us, shape.queue,
                  steps ? fmt::format("; CUDA's kernels, {} steps each", *steps) : ""));
}

void Report::Second(std::uint64_t number, const Done& done) const {
  if (options_.json) {
    Say(fmt::format(R"({{"second":{},"launches":{},"kernel_ms":{:.3f},"kernel_ms_per_s":{:.3f}}})"
                    "\n",
                    number, done.launches, Milliseconds(done), PerSecond(done)));
    return;
  }
  Say(fmt::format("second {}: {:.1f} ms/s of kernels\n", number, PerSecond(done)));
}

void Report::Each(std::uint64_t latency_ns) const {
  const double us = static_cast<double>(latency_ns) / kNsPerUs;
  Say(options_.json ? fmt::format("{{\"each_us\":{:.1f}}}\n", us) : fmt::format("{:.1f} us\n", us));
}

void Report::Sum(const Done& done, std::uint64_t left, const Latencies& latencies) const {
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / kNsPerUs; };
  const double seconds = static_cast<double>(done.ns) / kNsPerS;
  const double p50 = us(latencies.Percentile(50));
  const double p90 = us(latencies.Percentile(90));
  const double p99 = us(latencies.Percentile(99));
  const double most = us(latencies.most());
  if (options_.json) {
    Say(fmt::format(
        R"({{"launches":{},"left":{},"seconds":{:.6f},"kernel_ms":{:.3f},"kernel_ms_per_s":{:.3f},)"
        R"("latency_us":{{"p50":{:.1f},"p90":{:.1f},"p99":{:.1f},"max":{:.1f}}}}})"
        "\n",
        done.launches, left, seconds, Milliseconds(done), PerSecond(done), p50, p90, p99, most));
    return;
  }
  Say(fmt::format("latency: p50 {:.0f} us, p90 {:.0f} us, p99 {:.0f} us, max {:.0f} us\n", p50, p90,
                  p99, most));
  Say(fmt::format(
      "sum: {:.1f} ms of kernels in {:.2f} s, {:.1f} ms/s; {} launches ended, {} had not\n",
      Milliseconds(done), seconds, PerSecond(done), done.launches, left));
}

}  // namespace cgpu::burn
