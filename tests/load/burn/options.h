// Parses cgpu-burn's command line.
#ifndef CGPU_TESTS_LOAD_BURN_OPTIONS_H_
#define CGPU_TESTS_LOAD_BURN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/burn/load.h"

namespace cgpu::burn {

// The times of launches, and their end.
struct Pace {
  std::uint64_t gap_us = 0;  // from an end that was seen to the next launch; with a queue of 1
  std::uint64_t gap_spread_us = 0;  // random addition to gap_us, at most
  // Work at the begin of each period: as much as takes this percentage of the period on a GPU that
  // has nothing else to do. Work that finds no place in the queue in its period is skipped.
  std::optional<unsigned> duty_percent;
  std::uint64_t period_ms = 100;
  // Launches a second on average, at random times (exponential gaps) that do not depend on how fast
  // others end. A launch that finds no place in the queue waits for one; its latency counts from
  // when it was due.
  std::optional<unsigned> rate;
  std::optional<std::uint64_t> seed;  // of all random numbers: the same seed draws the same times
  std::optional<std::uint64_t> seconds;
  std::optional<std::uint64_t> count;  // of launches; afterwards it waits for their ends
};

struct Options {
  Shape shape;
  Pace pace;
  bool json = false;
  bool each = false;  // prints a line for each launch that ended
};

struct CommandLine {
  Options options;
  std::optional<std::string> text;  // to be printed instead: help, version
};

// Parses the arguments. kInvalid with a sentence for a command line that makes no sense.
[[nodiscard]] Result<CommandLine> ParseOptions(std::vector<std::string> arguments);

}  // namespace cgpu::burn

#endif  // CGPU_TESTS_LOAD_BURN_OPTIONS_H_
