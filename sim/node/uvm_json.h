// The part of `cgpu sim books` that is about nvidia-uvm.
#ifndef CGPU_SIM_NODE_UVM_JSON_H_
#define CGPU_SIM_NODE_UVM_JSON_H_

#include <string>

#include "sim/model/uvm_accounting.h"

namespace cgpu::sim {

// JSON: an array with an object per initialised file; an array of the mmaps that the driver would
// have refused; what belongs to the object of one card.
[[nodiscard]] std::string UvmFilesJson(const UvmAccounting& accounting);
[[nodiscard]] std::string UvmRefusedJson(const UvmAccounting& accounting);
[[nodiscard]] std::string UvmCardJson(const UvmAccounting& accounting, int card);

}  // namespace cgpu::sim

#endif  // CGPU_SIM_NODE_UVM_JSON_H_
