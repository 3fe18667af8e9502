// The data of `cgpu smi` about a host, and its output formats: nvidia-smi's table, its list and its
// CSV.
//
// Gathering asks the driver; rendering is pure. A figure that the driver was not asked for prints
// as "N/A", as nvidia-smi prints a figure that a GPU does not report.
#ifndef CGPU_APPS_CGPU_SMI_REPORT_H_
#define CGPU_APPS_CGPU_SMI_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "rmclient/raw.h"

namespace cgpu::smi {

struct Process {
  std::uint32_t pid = 0;
  std::string
      name;  // path of its program, or its first word; "[Not Found]" if it is not to be seen
  std::uint64_t bytes = 0;
};

struct Card {
  unsigned index = 0;
  std::string uuid;
  std::string name;
  std::string bus_id;  // nvidia-smi's form: "00000000:00:04.0"
  std::uint64_t total = 0;
  std::uint64_t used = 0;
  std::uint64_t free = 0;
  std::vector<Process> processes;  // those that hold memory, except the caller itself
};

struct Report {
  std::string driver_version;
  std::vector<Card> cards;
};

[[nodiscard]] Result<Report> Gather(const rmclient::DevicePaths& paths);

// Returns nvidia-smi's default output. `now` is the line over the table, without its newline;
// `version` is cgpu's own.
[[nodiscard]] std::string RenderTable(const Report& report, const std::string& now,
                                      const std::string& version);
// Returns the output of `-L`.
[[nodiscard]] std::string RenderList(const Report& report);

struct QueryFormat {
  bool header = true;
  bool units = true;
};
// Parses "csv", "csv,noheader", "csv,noheader,nounits", in any order after csv.
[[nodiscard]] Result<QueryFormat> ParseQueryFormat(const std::string& text);
// Returns the output of `--query-gpu=FIELDS`: comma-separated names, nvidia-smi's. kInvalid for a
// name that nvidia-smi does not have.
[[nodiscard]] Result<std::string> RenderQuery(const Report& report, const std::string& fields,
                                              QueryFormat format);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_REPORT_H_
