// The long report of `cgpu smi -q`, as text and as XML. Pure.
#ifndef CGPU_APPS_CGPU_SMI_LOG_H_
#define CGPU_APPS_CGPU_SMI_LOG_H_

#include <set>
#include <string>

#include "apps/cgpu/smi/report.h"
#include "base/result.h"

namespace cgpu::smi {

// Names of the parts that -d chooses from; the names are nvidia-smi's, in capitals.
using Parts = std::set<std::string>;

// Parses the value of -d: names separated by commas, in any case. kInvalid: there is no such part.
[[nodiscard]] Result<Parts> ParseParts(const std::string& text);

// Returns the report, or the named parts of it.
[[nodiscard]] std::string RenderLog(const Report& report, const Moment& now, const Parts& parts);
// Returns the report in XML, with the elements of nvidia-smi's.
[[nodiscard]] std::string RenderXml(const Report& report, const Moment& now, const Parts& parts);

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_LOG_H_
