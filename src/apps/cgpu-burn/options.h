// cgpu-burn's command line, parsed.
#ifndef CGPU_APPS_CGPU_BURN_OPTIONS_H_
#define CGPU_APPS_CGPU_BURN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cgpu-burn/load.h"
#include "base/result.h"

namespace cgpu::burn {

// When it launches, and until when.
struct Pace {
  std::uint64_t gap_us = 0;  // from an end that was seen to the next launch; with a queue of 1
  std::uint64_t gap_spread_us = 0;  // and by so much more at the most, by chance
  // So much work is launched at the begin of each period that it takes this part of it on a card
  // that has nothing else to do. What finds no place in the queue in its period is left out.
  std::optional<unsigned> duty_percent;
  std::uint64_t period_ms = 100;
  // So many launches a second on the average, at times of chance (exponential gaps) that know
  // nothing of how fast others end. One that finds no place in the queue waits for one; its latency
  // is counted from when it was due.
  std::optional<unsigned> rate;
  std::optional<std::uint64_t> seed;  // of all chance: the same one draws the same times
  std::optional<std::uint64_t> seconds;
  std::optional<std::uint64_t> count;  // of launches; then it waits for their ends
};

struct Options {
  Shape shape;
  Pace pace;
  bool json = false;
  bool each = false;  // a line for each launch that ended
};

struct CommandLine {
  Options options;
  std::optional<std::string> text;  // to be printed instead: help, version
};

// kInvalid with a sentence for a command line that makes no sense.
[[nodiscard]] Result<CommandLine> ParseOptions(std::vector<std::string> arguments);

}  // namespace cgpu::burn

#endif  // CGPU_APPS_CGPU_BURN_OPTIONS_H_
