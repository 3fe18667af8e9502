// `cgpu sim books` as JSON.
#ifndef CGPU_SIM_NODE_ACCOUNTING_JSON_H_
#define CGPU_SIM_NODE_ACCOUNTING_JSON_H_

#include <string>
#include <vector>

#include "sim/driver/driver.h"
#include "sim/fuse/gpu_link.h"

namespace cgpu::sim {

// The accounting of the driver, of nvidia-uvm and of the engines, each of one moment.
struct AllAccounting {
  Accounting driver;
  Driver::Counts counts;
  UvmAccounting uvm;
  EngineAccounting engines;
  bool engines_answer = true;
};

[[nodiscard]] std::string AccountingJson(const Driver& driver, const GpuLink& link,
                                         const AllAccounting& accounting);

// Returns an array with client, handle, parent and class of each object.
[[nodiscard]] std::string ObjectsJson(const std::vector<ObjectName>& objects);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_ACCOUNTING_JSON_H_
