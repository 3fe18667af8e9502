// Writes a snapshot in Prometheus' text format. Pure. docs/howto/metrics.md explains each metric.
#ifndef CGPU_EXPORTER_EXPOSITION_H_
#define CGPU_EXPORTER_EXPOSITION_H_

#include <string>

#include "exporter/snapshot.h"

namespace cgpu::exporter {

// Returns all metrics, also those of which the host has no series. `dcgm`: those of dcgm.h, too.
[[nodiscard]] std::string Render(const Snapshot& snapshot, bool dcgm = false);

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_EXPOSITION_H_
