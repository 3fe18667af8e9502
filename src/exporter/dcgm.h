// Metrics with the names and labels of others, so that existing dashboards and autoscalers work.
// Pure.
//
// DCGM_FI_DEV_*: dcgm-exporter's (internal/pkg/rendermetrics/render_metrics.go of
// NVIDIA/dcgm-exporter). DCGM_CUSTOM_*: of Alibaba Cloud's GPU exporter ("Introduction to metrics",
// Container Service for Kubernetes, 2026-03-25).
#ifndef CGPU_EXPORTER_DCGM_H_
#define CGPU_EXPORTER_DCGM_H_

#include "exporter/families.h"
#include "exporter/snapshot.h"

namespace cgpu::exporter {

// Adds them: for each GPU of each container, and for each GPU without containers.
void AddDcgm(const Snapshot& host, Families& families);

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_DCGM_H_
