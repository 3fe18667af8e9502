// The state of one open file of nvidia-uvm: an address space, the GPUs registered in it and the
// ranges made in it. Plain data; uvm_model.h has the rules.
#ifndef CGPU_SIM_MODEL_UVM_SPACE_H_
#define CGPU_SIM_MODEL_UVM_SPACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "rm/nv_uvm.h"
#include "sim/model/object.h"
#include "sim/model/page_tree.h"
#include "sim/model/uvm_seen.h"

namespace cgpu::sim {

// uvm_va_range.h, uvm_va_range_type_t. Managed ranges lie apart, in UvmSpace::managed.
enum class UvmRangeKind : std::uint8_t {
  kExternal,
  kChannel,
  kDynamicParallelism,
  kSemaphorePool,
  kDeviceP2p,
};

// A part of an external range that is mapped on a GPU: uvm_ext_gpu_map_t. It holds the memory.
struct UvmPiece {
  rm::NvU64 length = 0;
  rm::NvU64 page_size = 0;
  std::shared_ptr<Block> block;  // none: sparse
  rm::NvU64 offset = 0;          // in the block
};

struct UvmRange {
  UvmRangeKind kind = UvmRangeKind::kExternal;
  rm::NvU64 length = 0;
  std::map<int, std::map<rm::NvU64, UvmPiece>> pieces;  // of kExternal: by GPU and base
  int gpu = -1;                                         // of kDynamicParallelism and kChannel
  unsigned users = 0;                                   // of kChannel: channels that need it
  std::shared_ptr<Block> block;                         // of kDeviceP2p
};

struct UvmChannel {
  rm::NvHandle client = 0;
  rm::NvHandle channel = 0;
  std::shared_ptr<Group> group;  // keeps the context buffers
  std::vector<rm::NvU64> ranges;
};

// A registered GPU VA space.
struct UvmGpuVaSpace {
  UvmGpuVaSpace(GpuMemory& memory, bool hopper, std::shared_ptr<VaSpace> duplicated)
      : tree(memory, hopper), vaspace(std::move(duplicated)) {}

  PageTree tree;
  std::shared_ptr<VaSpace> vaspace;
  std::vector<UvmChannel> channels;
};

struct UvmGpu {
  std::unique_ptr<UvmGpuVaSpace> vaspace;  // REGISTER_GPU_VASPACE
};

// A range that mmap made.
struct UvmManaged {
  rm::NvU64 length = 0;
  UvmOwner owner;
  bool zombie = false;  // its owner is gone, and the space is shared between processes
  bool read_duplication = false;
  std::optional<rm::NvProcessorUuid> preferred;
};

struct UvmSegment {
  rm::NvU64 base = 0;
  rm::NvU64 length = 0;
  rm::NvU64 page_size = 0;
};

// The memory that the managed ranges of a space take of a GPU.
struct UvmResident {
  int gpu = -1;
  rm::NvU64 bytes = 0;
  rm::NvU64 overcommit = 0;          // found no room
  std::vector<UvmSegment> segments;  // in the page tables of the GPU
};

// uvm_va_space_mm.h, uvm_va_space_mm_state_t.
enum class UvmMm : std::uint8_t { kUninitialized, kAlive, kReleased };

struct UvmSpace {
  rm::NvU64 flags = 0;
  std::uint32_t tgid = 0;  // of UVM_INITIALIZE
  UvmMm mm = UvmMm::kUninitialized;
  std::vector<int> order;      // the registered GPUs, oldest first
  std::map<int, UvmGpu> gpus;  // the registered GPUs
  std::set<std::pair<int, int>> peers;
  std::map<rm::NvU64, UvmRange> ranges;     // by base
  std::map<rm::NvU64, UvmManaged> managed;  // by base
  UvmResident resident;
  rm::NvU64 next_group = 1;
  std::set<rm::NvU64> groups;  // range groups

  [[nodiscard]] bool Sharing() const {
    return (flags & rm::UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE) != 0;
  }
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_UVM_SPACE_H_
