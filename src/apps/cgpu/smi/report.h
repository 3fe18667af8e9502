// What `cgpu smi` knows of a node, and its forms: nvidia-smi's table, its list and its CSV.
//
// Gathering asks the driver; rendering is pure. What the driver was not asked prints as "N/A", as
// nvidia-smi prints what a card does not tell.
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
  std::vector<Process> processes;  // those that hold memory, but for the caller itself
};

struct Report {
  std::string driver_version;
  std::vector<Card> cards;
};

[[nodiscard]] Result<Report> Gather(const rmclient::DevicePaths& paths);

// nvidia-smi's default output. `now` is the line over the table, without its newline; `version` is
// cgpu's own.
[[nodiscard]] std::string RenderTable(const Report& report, const std::string& now,
                                      const std::string& version);
// `-L`
[[nodiscard]] std::string RenderList(const Report& report);

struct QueryFormat {
  bool header = true;
  bool units = true;
};
// "csv", "csv,noheader", "csv,noheader,nounits" in any order after csv.
[[nodiscard]] Result<QueryFormat> ParseQueryFormat(const std::string& text);
// `--query-gpu=FIELDS`: comma-separated names, nvidia-smi's. kInvalid for a name it does not have.
[[nodiscard]] Result<std::string> RenderQuery(const Report& report, const std::string& fields,
                                              QueryFormat format);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_REPORT_H_
