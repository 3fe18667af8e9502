// The fields that the queries of `cgpu smi` take. Pure.
#ifndef CGPU_APPS_CGPU_SMI_FIELDS_H_
#define CGPU_APPS_CGPU_SMI_FIELDS_H_

#include <optional>
#include <string>
#include <vector>

#include "apps/cgpu/smi/report.h"

namespace cgpu::smi {

// Subject of a value. `process` is there in a query for processes.
struct Subject {
  const Report& report;
  const Moment& now;
  const Gpu& gpu;
  const Process* process = nullptr;
};

struct Field {
  std::string name;
  std::string alias;  // another name for it; may be empty
  std::string unit;   // may be empty
  std::string about;  // empty: the same as the field before it
  // Returns the value; nothing: not known of this GPU. nullptr: of no GPU.
  std::optional<std::string> (*value)(const Subject& subject) = nullptr;
};

// Witness of names and units: `nvidia-smi --help-query-gpu` and --help-query-compute-apps of
// release 550, as its manual page and scripts in public repositories have them.
[[nodiscard]] const std::vector<Field>& GpuFields();
[[nodiscard]] const std::vector<Field>& ProcessFields();

}  // namespace cgpu::smi

#endif  // CGPU_APPS_CGPU_SMI_FIELDS_H_
