#include "load/burn/options.h"

#include <utility>

#include "cli/command_line.h"
#include "sim/cuda/work.h"
#include "version/version.h"

namespace cgpu::burn {
namespace {

constexpr std::uint64_t kMostUs = 1'000'000'000;
constexpr std::uint64_t kMostSeconds = 1'000'000'000;

Error Wrong(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), "see `cgpu-burn --help`"};
}

void AddShape(const cli::Command& app, Shape& shape) {
  app.AddOption("--kernel-us", shape.kernel_us, "Microseconds that one kernel runs")
      .Between(std::uint64_t{1}, kMostUs)
      .ShowDefault();
  app.AddOption("--queue", shape.queue,
                "Launches that are under way at a time; 1: launch, wait, launch")
      .Between(std::uint64_t{1}, 4096U)
      .ShowDefault();
  app.AddOption("--graph", shape.graph, "Kernels in one launch, one after the other")
      .Between(std::uint64_t{1}, sim::cuda::WorkQueue::kMostRuns)
      .ShowDefault();
  app.AddOption("--gpu", shape.gpu, "GPU, from 0 in order of bus address")
      .Between(std::uint64_t{0}, 31U)
      .ShowDefault();
  app.AddFlag("--rigid", shape.rigid,
              "Kernels that the GPU cannot take off before their end (simulated GPUs)");
  app.AddFlag("--cuda", shape.cuda, "By CUDA, also where the GPU is a simulated one");
  app.AddFlag("--wide", shape.wide,
              "CUDA: a block of threads for each multiprocessor, in place of one for the GPU");
  app.AddOption("--steps", shape.steps,
                "CUDA: how far a kernel counts, in place of as far as it comes in --kernel-us")
      .Between(std::uint64_t{1}, std::uint64_t{1} << 50);
}

void AddPace(const cli::Command& app, Pace& pace) {
  app.AddOption("--gap-us", pace.gap_us,
                "With --queue 1: microseconds between a launch's end and the next launch")
      .Between(std::uint64_t{0}, kMostUs)
      .ShowDefault();
  app.AddOption(
         "--gap-spread-us", pace.gap_spread_us,
         "Beside --gap-us: each time as much longer as chance will, up to so many microseconds")
      .Between(std::uint64_t{0}, kMostUs)
      .ShowDefault();
  app.AddOption("--duty", pace.duty_percent,
                "Launch at the begin of each period what takes PERCENT of it on an idle GPU, then "
                "nothing (default: always keep the queue full)")
      .Between(std::uint64_t{1}, 100U);
  app.AddOption("--period-ms", pace.period_ms, "The period of --duty, in milliseconds")
      .Between(std::uint64_t{1}, std::uint64_t{3'600'000})
      .ShowDefault();
  app.AddOption("--rate", pace.rate,
                "Launches a second on the average, at times of chance, whatever has ended; a "
                "latency counts from when the launch was due")
      .Between(std::uint64_t{1}, 100'000U);
  app.AddOption("--seed", pace.seed,
                "The same number draws the same times of chance (default: others each time)");
  app.AddOption("--seconds", pace.seconds, "End after so many (default: when it is stopped)")
      .Between(std::uint64_t{1}, kMostSeconds);
  app.AddOption("--count", pace.count, "End when so many launches have ended")
      .Between(std::uint64_t{1}, std::uint64_t{1} << 62);
}

}  // namespace

Result<CommandLine> ParseOptions(std::vector<std::string> arguments) {
  CommandLine line;
  Options& options = line.options;
  const cli::Program app(
      "Keeps a GPU busy, and says each second how much of its work was done and at the end how "
      "long "
      "launches took",
      "cgpu-burn");
  app.SetVersion(VersionText("cgpu-burn"));
  AddShape(app, options.shape);
  AddPace(app, options.pace);
  app.AddFlag("--json", options.json, "A JSON object a line");
  app.AddFlag("--each", options.each, "A line with the latency of each launch, too");
  app.SetFooter(
      "A latency is the time from a launch until its end was seen; with a queue it has the wait "
      "for\n"
      "those before it. SIGINT and SIGTERM end it as --seconds does: it launches no more, waits a\n"
      "second for what is under way, and says the sum. On a simulated GPU kernels are of its\n"
      "own kind; on a real one they are CUDA's, which count so far as they come in --kernel-us on\n"
      "an idle GPU. With --steps milliseconds are as if a kernel took --kernel-us.\n"
      "Exit status: 0; 1 wrong usage, no driver, no CUDA, or the GPU refused.");
  const cli::Parsed parsed = app.Parse(std::move(arguments));
  if (parsed.kind == cli::Parsed::Kind::kWrong) {
    return Wrong(parsed.text);
  }
  if (parsed.kind == cli::Parsed::Kind::kText) {
    line.text = parsed.text;
    return line;
  }
  if (options.pace.gap_spread_us != 0 && options.pace.gap_us == 0) {
    return Wrong("--gap-spread-us makes gaps longer: give --gap-us");
  }
  if (options.pace.gap_us != 0 && options.shape.queue != 1) {
    return Wrong("--gap-us needs --queue 1: with more there is always a launch under way");
  }
  if (options.pace.gap_us != 0 && options.pace.duty_percent) {
    return Wrong("--gap-us and --duty are two ways to leave the GPU alone: give one");
  }
  if (options.pace.rate && (options.pace.gap_us != 0 || options.pace.duty_percent)) {
    return Wrong("--rate says when to launch, as --gap-us and --duty do: give one");
  }
  if (app.Count("--period-ms") != 0 && !options.pace.duty_percent) {
    return Wrong("--period-ms is the period of --duty, which is not given");
  }
  return line;
}

}  // namespace cgpu::burn
