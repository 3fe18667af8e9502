// The selective queries of `cgpu smi`, as CSV: --query-gpu and --query-compute-apps. Pure.
#ifndef CGPU_APPS_CGPU_SMI_QUERY_H_
#define CGPU_APPS_CGPU_SMI_QUERY_H_

#include <string>

#include "apps/cgpu/smi/report.h"
#include "base/result.h"

namespace cgpu::smi {

enum class QueryKind : std::uint8_t { kGpus, kProcesses };

struct QueryFormat {
  bool header = true;
  bool units = true;
};
// Parses "csv", "csv,noheader", "csv,noheader,nounits", in any order.
[[nodiscard]] Result<QueryFormat> ParseQueryFormat(const std::string& text);

// Returns the rows, and the header if the format has one. `fields`: comma-separated names,
// nvidia-smi's. A column is headed by the first of a field's two names, whichever was asked, as
// nvidia-smi does (custhelp.nvidia.com, "Useful nvidia-smi Queries"). A value with a comma or a
// quote in it is quoted as RFC 4180 says. kInvalid for a name that nvidia-smi does not have.
[[nodiscard]] Result<std::string> RenderQuery(QueryKind kind, const Report& report,
                                              const Moment& now, const std::string& fields,
                                              QueryFormat format);

// Returns the fields that a query takes, and what they are.
[[nodiscard]] std::string QueryHelp(QueryKind kind);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_QUERY_H_
