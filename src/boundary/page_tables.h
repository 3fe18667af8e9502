// Counts the page tables that the driver needs for the mappings of one GPU address space, at most,
// without the root.
//
// UVM and RM put their page tables on the GPU and take them for themselves, so no object shows
// them: one small object mapped at every second MiB takes a table each time
// (NVIDIA/open-gpu-kernel-modules 550.163.01 kernel-open/nvidia-uvm/uvm_mmu.c; levels and their
// reach from uvm_pascal_mmu.c to uvm_hopper_mmu.c). Mappings are counted as if made of the smallest
// pages. Where there are pages of 4 KiB and of 64 KiB in 2 MiB, there is a small table for the
// latter beside the one of the former; so each is counted with one.
//
// Pure; thread-compatible.
#ifndef CGPU_BOUNDARY_PAGE_TABLES_H_
#define CGPU_BOUNDARY_PAGE_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace cgpu::boundary {

class PageTables {
 public:
  static constexpr std::uint64_t kTableBytes = 4096;
  static constexpr std::uint64_t kLowestBytes = kTableBytes + 256;
  static constexpr unsigned kLowestReach = 21;  // bits of address that one translates

  // Adds a mapping of [start, end), start < end. Mappings do not overlap.
  void Map(std::uint64_t start, std::uint64_t end);
  // Removes a mapping, exactly as it was added.
  void Unmap(std::uint64_t start, std::uint64_t end);

  [[nodiscard]] std::uint64_t Bytes() const { return bytes_; }

  // Returns the most bytes of tables for a mapping of `length` bytes (not 0) at an unknown address.
  [[nodiscard]] static std::uint64_t MostBytes(std::uint64_t length);

 private:
  // Bits of address that one table of each level translates, from the lowest level up.
  static constexpr std::array<unsigned, 4> kReach = {kLowestReach, 29, 38, 47};

  [[nodiscard]] static constexpr std::uint64_t BytesAt(std::size_t level) {
    return level == 0 ? kLowestBytes : kTableBytes;
  }

  // Tables at the ends of mappings, which neighbours may share, with the number of mappings that
  // use each. The tables between the ends of a mapping are its own.
  std::array<std::map<std::uint64_t, std::uint32_t>, kReach.size()> shared_;
  std::uint64_t bytes_ = 0;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_PAGE_TABLES_H_
