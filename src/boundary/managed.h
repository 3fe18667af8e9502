// Managed memory: what an mmap of nvidia-uvm's file takes of a card.
//
// UVM makes a managed range of a mapping that is shared, readable and writable and lies at the
// address that its offset says, compared after the kernel has placed it
// (NVIDIA/open-gpu-kernel-modules 550.163.01 kernel-open/nvidia-uvm/uvm.c, uvm_mmap). Which file
// the descriptor leads to can change between our look and the kernel's, so a mapping that is sure
// to lie where its offset says counts as managed whatever the descriptor leads to now; one that
// would only by chance is let through and looked at afterwards.
//
// Pure.
#ifndef CGPU_BOUNDARY_MANAGED_H_
#define CGPU_BOUNDARY_MANAGED_H_

#include <cstdint>
#include <optional>
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
  kHarmless,  // no managed range comes of it, whatever the descriptor leads to
  kManaged,   // one may come of it: charge it first
  kSuspect,   // one comes of it only if the descriptor is swapped and the address met by intent
};

// `uvm_file`: what the descriptor leads to now. `range`: where a managed range would lie.
[[nodiscard]] MmapKind JudgeMmap(const MmapArgs& args, bool uvm_file, AddressRange* range);

// An mremap that the filter traps. It brings a mapping of nvidia-uvm's that was moved away back to
// where its offset says, or part of one.
[[nodiscard]] MmapKind JudgeMremap(std::uint64_t new_address, std::uint64_t new_length,
                                   AddressRange* range);

// The card memory that managed ranges of one address space can take, at most: whole blocks of 2
// MiB, which is what UVM takes from the card at a time, and page tables. Ranges may overlap.
// Saturates.
[[nodiscard]] std::uint64_t ManagedBytes(std::vector<AddressRange> ranges);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_MANAGED_H_
