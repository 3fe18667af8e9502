// Managed memory: the GPU memory that an mmap of nvidia-uvm's file takes.
//
// UVM makes a managed range of a mapping that is shared, readable and writable and lies at the
// address that its offset says. UVM compares after the kernel has placed the mapping
// (NVIDIA/open-gpu-kernel-modules 550.163.01 kernel-open/nvidia-uvm/uvm.c, uvm_mmap). The
// descriptor can lead to another file between our look and the kernel's. So a mapping that is sure
// to lie where its offset says counts as managed, whatever file the descriptor leads to now. A
// mapping that would lie there only by chance is let through and checked afterwards.
//
// Pure.
#ifndef CGPU_BOUNDARY_MANAGED_H_
#define CGPU_BOUNDARY_MANAGED_H_

#include <cstdint>
#include <vector>

#include "boundary/address_ranges.h"

namespace cgpu::boundary {

struct MmapArgs {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t prot = 0;
  std::uint64_t flags = 0;
  std::uint64_t offset = 0;
};

enum class MmapKind {
  kHarmless,  // makes no managed range, whatever the descriptor leads to
  kManaged,   // may make one: charge it first
  kSuspect,   // makes one only if the tenant swaps the descriptor and hits the address on purpose
};

// Judges an mmap. `uvm_file`: the file that the descriptor leads to now is nvidia-uvm's. `range`:
// where a managed range would lie.
[[nodiscard]] MmapKind JudgeMmap(const MmapArgs& args, bool uvm_file, AddressRange* range);

// Judges an mremap that the filter traps. It can bring a mapping of nvidia-uvm's that was moved
// away, or part of one, back to where its offset says.
[[nodiscard]] MmapKind JudgeMremap(std::uint64_t new_address, std::uint64_t new_length,
                                   AddressRange* range);

// Returns the most GPU memory that managed ranges of one address space can take: whole blocks of 2
// MiB, which UVM takes from the GPU at a time, and page tables. Ranges may overlap. Saturates.
[[nodiscard]] std::uint64_t ManagedBytes(std::vector<AddressRange> ranges);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_MANAGED_H_
