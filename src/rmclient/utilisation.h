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

// A sample of a window of kSampleNs.
struct Utilisation {
  std::uint64_t time_ns = 0;  // end of the window (ctrl2080gpumon.h: nanoseconds)
  double busy = 0;            // the engine for graphics and compute, 0 to 1
  std::uint32_t pid = 0;      // process that was active on that at the end, or 0
  double memory = 0;          // 0 to 1, as those below
  double encoder = 0;
  double decoder = 0;
};

// The driver keeps 72 samples of ten seconds (ctrl2080perf.h).
inline constexpr std::size_t kSamples = 72;
inline constexpr std::uint64_t kSampleNs = 10'000'000'000 / kSamples;

// Returns the samples that the driver has, oldest first. It takes none while nothing runs.
[[nodiscard]] Result<std::vector<Utilisation>> ReadUtilisation(Client& client, const Gpu& gpu);

}  // namespace cgpu::rmclient

#endif  // CGPU_RMCLIENT_UTILISATION_H_
