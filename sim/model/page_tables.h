// The page tables that the driver keeps on a GPU for one address space.
#ifndef CGPU_SIM_MODEL_PAGE_TABLES_H_
#define CGPU_SIM_MODEL_PAGE_TABLES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rm/nv_types.h"
#include "sim/model/memory.h"

namespace cgpu::sim {

// The memory that [start, start + length) of an address space leads to.
struct GpuPlace {
  rm::NvU64 start = 0;
  rm::NvU64 length = 0;
  std::shared_ptr<Block> block;
  rm::NvU64 offset = 0;  // of `start` in the block
};

// Takes the GPU's memory for each table that some mapping needs, as the formats of Pascal and
// later ask for them: a root, directories over 128 TiB, 256 GiB and 512 MiB, and under them tables
// for each 2 MiB that has smaller pages: 4 KiB each, and 256 bytes for pages of 64 KiB, which lie
// several to a page (src/nvidia/src/kernel/gpu/mmu/gmmu_walk.c). NVIDIA/open-gpu-kernel-modules
// 550.163.01 src/nvidia/src/libraries/mmu/gmmu_fmt.c and gpu/mmu/arch/pascal/kern_gmmu_fmt_gp10x.c.
// A table goes with the last mapping that needs it. Thread-compatible.
class PageTables {
 public:
  // `memory` must outlive it.
  explicit PageTables(GpuMemory& memory) : memory_(memory) {}
  PageTables(const PageTables&) = delete;
  PageTables& operator=(const PageTables&) = delete;
  ~PageTables() { memory_.Return(Bytes()); }

  // Maps. `length` is not 0 and address + length does not overflow. Returns false if the GPU has no
  // room for the missing tables; then nothing was taken.
  [[nodiscard]] bool Map(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page);
  // Undoes an earlier Map() of the same arguments.
  void Unmap(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page);
  // Returns an address for a mapping whose place the driver chooses.
  [[nodiscard]] rm::NvU64 Reserve(rm::NvU64 length);

  [[nodiscard]] rm::NvU64 Bytes() const { return bytes_; }

  // Keep where addresses lead, for the engines. A later mapping hides an earlier one of the same
  // place. Forget() takes the address that Lead() had.
  void Lead(rm::NvU64 address, rm::NvU64 length, const std::shared_ptr<Block>& block,
            rm::NvU64 offset);
  void Forget(rm::NvU64 address);
  [[nodiscard]] std::optional<GpuPlace> Find(rm::NvU64 address) const;
  // Counts Forget() and hiding.
  [[nodiscard]] std::uint64_t Version() const { return version_; }
  // Returns the space's number for the engines, 0 while they do not know it.
  [[nodiscard]] rm::NvU64 Number() const { return number_; }
  void SetNumber(rm::NvU64 number) { number_ = number; }

 private:
  struct Mapped {
    rm::NvU64 length = 0;
    std::weak_ptr<Block> block;
    rm::NvU64 offset = 0;
  };
  using Table = std::pair<unsigned, rm::NvU64>;  // level, index

  GpuMemory& memory_;
  std::map<Table, std::uint64_t> uses_;
  rm::NvU64 bytes_ = 0;
  rm::NvU64 next_ = rm::NvU64{1} << 32;
  std::map<rm::NvU64, Mapped> mapped_;  // by address
  std::uint64_t version_ = 0;
  rm::NvU64 number_ = 0;
};

// The tables that an interval of addresses has from the start, for as long as somebody holds it.
class PinnedTables {
 public:
  explicit PinnedTables(std::shared_ptr<PageTables> tables) : tables_(std::move(tables)) {}
  PinnedTables(const PinnedTables&) = delete;
  PinnedTables& operator=(const PinnedTables&) = delete;
  ~PinnedTables();

  // Does as PageTables::Map(); once for each kind of pages.
  [[nodiscard]] bool Pin(rm::NvU64 address, rm::NvU64 length, rm::NvU64 page);

 private:
  struct Piece {
    rm::NvU64 address = 0;
    rm::NvU64 length = 0;
    rm::NvU64 page = 0;
  };
  std::shared_ptr<PageTables> tables_;
  std::vector<Piece> pieces_;
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_MODEL_PAGE_TABLES_H_
