// The scrolling tables `cgpu smi dmon` (a line per GPU) and `pmon` (a line per process). Pure.
//
// Witnesses of columns, units and widths: `nvidia-smi dmon -s pucvmet` and `pmon` of releases 535
// to 580 in public repositories (ray-project/ray parses pmon's), and the manual page.
#ifndef CGPU_APPS_CGPU_SMI_MONITOR_H_
#define CGPU_APPS_CGPU_SMI_MONITOR_H_

#include <string>
#include <string_view>

#include "apps/cgpu/smi/report.h"
#include "base/result.h"

namespace cgpu::smi {

enum class MonitorKind : std::uint8_t { kGpus, kProcesses };

// Choice of columns: letters of -s, in the order of the columns, and of -o.
struct MonitorOptions {
  MonitorKind kind = MonitorKind::kGpus;
  std::string groups;
  bool date = false;
  bool time = false;
};

// Parses the values of -s and -o; an empty -s means the usual columns. kInvalid: no such letter.
[[nodiscard]] Result<MonitorOptions> ParseMonitor(MonitorKind kind, std::string_view groups,
                                                  std::string_view options);

// Returns the two lines over the table.
[[nodiscard]] std::string MonitorHeader(const MonitorOptions& options);
// Returns the lines of one moment.
[[nodiscard]] std::string RenderMonitor(const MonitorOptions& options, const Report& report,
                                        const Moment& now);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_MONITOR_H_
