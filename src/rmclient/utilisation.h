// Reads how busy a GPU's engines were, from the driver's own samples.
#ifndef CGPU_RMCLIENT_UTILISATION_H_
#define CGPU_RMCLIENT_UTILISATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "rmclient/client.h"
#include "rmclient/gpus.h"

namespace cgpu::rmclient {

// A sample of a window.
struct Utilisation {
  std::uint64_t time_ns = 0;    // end of the window (ctrl2080gpumon.h: nanoseconds)
  std::uint64_t length_ns = 0;  // of the window
  double busy = 0;              // the engine for graphics and compute, 0 to 1
  std::uint32_t pid = 0;        // process that was active on that at the end, or 0
  double memory = 0;            // 0 to 1, as those below
  double encoder = 0;
  double decoder = 0;
};

// The driver keeps 72 samples (ctrl2080perf.h).
inline constexpr std::size_t kSamples = 72;
// Length of a window where the samples do not tell: that of an H200. With the 139 ms that
// ctrl2080perf.h gives (72 in ten seconds), a GPU of it that was full seemed 77.3 % busy
// (docs/hardware/h200-580.159.04.md).
inline constexpr std::uint64_t kSampleNs = 180'000'000;

// Sets the lengths of samples, oldest first: the time since the one before, or the usual one where
// that is longer, because samples are missing between the two.
void SetLengths(std::vector<Utilisation>& samples);

// Returns the samples that the driver has, oldest first. It takes none while nothing runs.
[[nodiscard]] Result<std::vector<Utilisation>> ReadUtilisation(Client& client, const Gpu& gpu);

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_UTILISATION_H_
