// The accounting of nvidia-uvm.
#ifndef CGPU_SIM_MODEL_UVM_ACCOUNTING_H_
#define CGPU_SIM_MODEL_UVM_ACCOUNTING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/model/uvm_space.h"

namespace cgpu::sim {

struct UvmGpuAccounting {
  rm::NvU64 managed_bytes = 0;
  rm::NvU64 managed_overcommit = 0;  // for what found no room, the driver would move other memory
  rm::NvU64 table_bytes = 0;         // page tables on the GPU
  rm::NvU64 system_table_bytes = 0;  // page tables that found no room there
};
struct UvmPieceAccounting {
  rm::NvU64 base = 0;
  rm::NvU64 length = 0;
  int gpu = -1;
  rm::NvU64 page_size = 0;
  bool sparse = false;
  int memory_gpu = -1;         // -1: system memory, or none
  rm::NvU64 memory_bytes = 0;  // what the memory object it holds takes of its GPU
};
struct UvmRangeAccounting {
  UvmRangeKind kind = UvmRangeKind::kExternal;
  rm::NvU64 base = 0;
  rm::NvU64 length = 0;
  std::vector<UvmPieceAccounting> pieces;
};
struct UvmManagedAccounting {
  rm::NvU64 base = 0;
  rm::NvU64 length = 0;
  std::uint32_t pid = 0;
  bool zombie = false;
};
struct UvmRefusedAccounting {
  UvmMapping mapping;
  std::string why;
};
struct UvmFileAccounting {
  FileId file = 0;
  rm::NvU64 flags = 0;
  std::uint32_t pid = 0;
  std::vector<int> registered;
  std::vector<int> vaspaces;
  std::size_t channels = 0;
  std::size_t range_groups = 0;
  std::vector<UvmRangeAccounting> ranges;
  std::vector<UvmManagedAccounting> managed;
  std::map<int, UvmGpuAccounting> gpus;
};

struct UvmAccounting {
  std::vector<UvmFileAccounting> files;
  std::vector<UvmRefusedAccounting> refused;  // mmaps that the driver would have refused
  std::map<int, UvmGpuAccounting> gpus;       // sums
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_UVM_ACCOUNTING_H_
