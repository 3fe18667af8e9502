// The page tables that nvidia-uvm keeps on a GPU for one address space: which tables exist, and how
// much of the GPU they take.
//
// NVIDIA/open-gpu-kernel-modules kernel-open/nvidia-uvm/uvm_mmu.c and uvm_{pascal,hopper}_mmu.c.
#ifndef CGPU_SIM_MODEL_PAGE_TREE_H_
#define CGPU_SIM_MODEL_PAGE_TREE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "rm/nv_types.h"
#include "sim/model/memory.h"

namespace cgpu::sim {

// Counts how many times each of the numbers of a wide range is needed.
class NeedCounts {
 public:
  // Count [first, last]. Return how many of the numbers nobody needed before, or nobody needs any
  // more.
  rm::NvU64 Add(rm::NvU64 first, rm::NvU64 last);
  rm::NvU64 Remove(rm::NvU64 first, rm::NvU64 last);

 private:
  using Counts = std::map<rm::NvU64, std::uint32_t>;

  Counts::iterator Split(rm::NvU64 at);
  void Join(rm::NvU64 first, rm::NvU64 end);

  Counts counts_;  // from a key to the next one the count is the same; 0 before the first
};

// Thread-compatible.
class PageTree {
 public:
  // Takes the root. `memory` outlives the tree.
  PageTree(GpuMemory& memory, bool hopper);
  PageTree(const PageTree&) = delete;
  PageTree& operator=(const PageTree&) = delete;
  ~PageTree();

  // Add, remove or split a mapping of [base, base + length) in pages of `page_size` (4 KiB, 64 KiB,
  // 2 MiB or 512 MiB), aligned to it. Remove() takes a mapping that Add() took, whole; Split()
  // makes two of one.
  //
  // Tables come from the GPU while it has room and from system memory then (uvm_mmu.c
  // allocate_directory(), location_sys_fallback): nothing here fails.
  void Add(rm::NvU64 base, rm::NvU64 length, rm::NvU64 page_size);
  void Remove(rm::NvU64 base, rm::NvU64 length, rm::NvU64 page_size);

  void Split(rm::NvU64 base, rm::NvU64 length, rm::NvU64 at, rm::NvU64 page_size);

  [[nodiscard]] rm::NvU64 GpuBytes() const { return gpu_bytes_; }
  [[nodiscard]] rm::NvU64 SystemBytes() const { return system_bytes_; }

 private:
  // Directories from the one below the root to the one that maps 2 MiB pages, then the two kinds of
  // last tables, which a 2 MiB span may have both of.
  static constexpr std::size_t kMaxDirectories = 4;
  struct Level {
    unsigned shift = 0;  // log2 of the bytes of address space one table covers
    NeedCounts needed;
  };

  [[nodiscard]] rm::NvU64 Walk(rm::NvU64 base, rm::NvU64 length, rm::NvU64 page_size, bool add);
  void Take(rm::NvU64 bytes);
  void Return(rm::NvU64 bytes);

  GpuMemory& memory_;
  std::size_t directories_ = 0;
  std::array<Level, kMaxDirectories> levels_;
  Level small_;  // 4 KiB pages
  Level big_;    // 64 KiB pages
  rm::NvU64 gpu_bytes_ = 0;
  rm::NvU64 system_bytes_ = 0;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_PAGE_TREE_H_
