// Writes what the page shows of this host, as JSON. Pure.
//
// The same form, from cgpu-exporter with one node and from cgpu-scheduler with all nodes:
//
//   {"kind": "node" or "cluster", "time": T, "nodes": [
//     {"name", "error", "version", "driver", "time": T,
//      "gpus": [
//        {"uuid", "index", "model", "pci", "healthy", "policy", "slices", "slices_max",
//         "share_granted", "memory": {"total", "granted", "used", "free", "unmanaged"},
//         "busy_seconds", "counted_seconds", "unmanaged_busy_seconds", "unmanaged_processes"}],
//      "containers": [
//        {"id", "name", "namespace", "pod", "container", "origin", "mode", "answers", "started",
//         "calls", "refused_calls",
//         "gpus": [
//           {"uuid", "limit", "used", "peak", "refused", "share", "share_max", "busy_seconds",
//            "waiting_seconds", "throttled_seconds", "weight", "high_priority"}]}],
//      "events": [{"time", "kind", "sentence", ...}]}]}
//
// Times are seconds of Unix time; those of events are as `cgpu events --json` has them, as are
// their other members. Memory is in bytes. Shares are parts of a GPU, 1 for all of it. Seconds,
// calls and refusals only grow, for as long as the container and the exporter live: readers take
// the difference of two answers. `busy_seconds` of a GPU cover `counted_seconds` of its time, and
// come up to 1.2 s late. What is not known is null: `error` where there is news, a `policy` that
// was neither set nor chosen, figures that the driver or a shim does not tell, the share of a
// container that is held to nothing. Text is as SafeLabel() leaves it.
#ifndef CGPU_EXPORTER_OVERVIEW_H_
#define CGPU_EXPORTER_OVERVIEW_H_

#include <string>
#include <vector>

#include "exporter/snapshot.h"
#include "host/events.h"

namespace cgpu::exporter {

// Returns the overview. `events`: the newest one first. `time`: when the snapshot was taken.
[[nodiscard]] std::string RenderOverview(const Snapshot& host, const std::vector<Event>& events,
                                         double time);

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_OVERVIEW_H_
