// Asks a GPU how it takes orders (governor/card.h), by work of cgpu's own: copies within 11 MiB of
// its memory (rmclient/copy_queue.h). Needs root, and nobody else's work on that GPU: work of
// others gives wrong answers. Takes less than a minute.
//
// It changes no setting of the GPU, and orders only its own channels about. All that it makes
// belongs to the session's client: whenever the process ends, the driver takes everything back.
//
// It does not show that a program of CUDA stands these orders at any moment of its start. On
// an H200 one that starts hung, where a running one did not (docs/hardware/h200-580.159.04.md).
#ifndef CGPU_CALIBRATION_CALIBRATE_H_
#define CGPU_CALIBRATION_CALIBRATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "governor/card.h"
#include "rmclient/gpus.h"

namespace cgpu {

struct Calibration {
  governor::Card card;
  // Figures behind it, each with its name: shares in percent, times in microseconds.
  std::vector<std::pair<std::string, double>> figures;
};

struct CalibrationOptions {
  // How often work is taken off and brought back; less often where that takes more than 30 s.
  std::uint64_t interruptions = 10'000;
  // Is told what is asked next.
  std::function<void(const std::string& line)> progress = [](const std::string&) {};
};

// kUnsupported: a GPU whose classes are not known. kUnavailable: its work does not end.
[[nodiscard]] Result<Calibration> Calibrate(rmclient::Session& session,
                                            const CalibrationOptions& options);

}  // namespace cgpu

#endif  // CGPU_CALIBRATION_CALIBRATE_H_
