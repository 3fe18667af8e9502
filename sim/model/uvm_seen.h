// Mappings of nvidia-uvm files, as they were seen in the processes of the node: mmap and munmap of
// its files do not reach the server of a FUSE file system.
#ifndef CGPU_SIM_MODEL_UVM_SEEN_H_
#define CGPU_SIM_MODEL_UVM_SEEN_H_

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "rm/nv_types.h"
#include "sim/model/object.h"

namespace cgpu::sim {

// Names one address space for ever: by the process that it was first seen in, and by a number that
// tells it from others of that process. Ranges live in it, and not in that process.
struct UvmOwner {
  std::uint32_t tgid = 0;
  std::uint64_t started = 0;
  std::uint64_t program = 0;

  friend auto operator<=>(const UvmOwner&, const UvmOwner&) = default;
};

// Addresses from `start` to before `end`.
struct UvmSpan {
  rm::NvU64 start = 0;
  rm::NvU64 end = 0;
};

struct UvmMapping {
  FileId file = 0;
  UvmOwner owner;
  rm::NvU64 start = 0;
  rm::NvU64 end = 0;
  rm::NvU64 offset = 0;
  bool shared_read_write = false;

  friend auto operator<=>(const UvmMapping&, const UvmMapping&) = default;
};

struct UvmSeen {
  // Only what these processes gave their name to was looked at; empty: all.
  std::set<std::uint32_t> looked_at;
  std::set<UvmOwner> alive;     // used by a process
  std::set<UvmOwner> unseen;    // of these, those whose mappings nobody could be asked for
  std::set<UvmOwner> executed;  // over since its last process has executed another program
  // The kernel is kept from unmapping what is in address spaces that nobody uses: exit_mmap() comes
  // after the last use, and what must be written to a file first may take as long as its file
  // system likes (Linux kernel/fork.c, __mmput()).
  bool keeps_ended = false;
  std::vector<UvmMapping> mappings;

  [[nodiscard]] bool LookedAt(std::uint32_t tgid) const {
    return looked_at.empty() || looked_at.contains(tgid);
  }
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_UVM_SEEN_H_
