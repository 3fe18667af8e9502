// Tracks the mappings into GPU address spaces that RM makes itself (NV_ESC_RM_MAP_MEMORY_DMA), and
// the GPU memory that page tables for them take.
//
// A mapping lies in a range: an object of class NV01_MEMORY_VIRTUAL, anywhere in its address space,
// or NV50_MEMORY_VIRTUAL, a VA range of it. It ends when it is undone and when its range or the
// memory in it is freed. The driver gives back tables that no mapping needs
// (NVIDIA/open-gpu-kernel-modules 550.163.01 src/nvidia/src/kernel/mem_mgr/gpu_vaspace.c and
// src/nvidia/src/libraries/mmu/mmu_walk*.c). A VA range's own tables are charged with the object
// (TablesOfInterval()). Only where they are for pages of all sizes do they serve all mappings in
// it; else the tables of mappings are counted beside them. In a sparse range what is unmapped
// becomes sparse again, and keeps its tables until the range goes (gpu_vaspace.c gvaspaceUnmap(),
// mmu_walk.c: a table goes when it has neither valid nor sparse entries).
//
// An address space that several ranges lie in has its tables once; under another handle it counts
// as another.
//
// Pure; thread-compatible. A mapping costs O(log n) and about 300 bytes.
#ifndef CGPU_BOUNDARY_DMA_TRACKER_H_
#define CGPU_BOUNDARY_DMA_TRACKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "boundary/address_ranges.h"
#include "boundary/page_tables.h"
#include "ledger/ledger.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::boundary {

// [start, end), not empty.
struct DmaMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool both = false;          // has tables for small and for big pages
  ledger::Handle device = 0;  // through which it was made
  std::uint64_t memory = 0;   // the mapped object's serial number
  ledger::Handle handle = 0;  // and its handle
};

// Says which tables the mappings in a range take.
enum class RangeTables : std::uint8_t {
  kOfMappings,  // each its own, until it is undone
  kCovered,     // none: all are charged with the range
  kKept,        // each its own, until the range goes
};

// The mappings of one client.
class DmaTracker {
 public:
  DmaTracker(ledger::ClientRef client, ledger::ProcessKey owner) : client_(client), owner_(owner) {}

  [[nodiscard]] ledger::ClientRef client() const { return client_; }
  [[nodiscard]] ledger::ProcessKey owner() const { return owner_; }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  // Returns the number of mappings, and of places in ranges whose tables are kept.
  [[nodiscard]] std::size_t mappings() const { return mapped_in_.size() + kept_; }

  // Adds a range. `space`: the serial number of the object that identifies the address space on the
  // GPU; the range's own where that is unknown.
  void AddRange(ledger::ObjectRef range, std::uint64_t space, ledger::Gpu gpu, RangeTables tables);

  // Returns the bytes of tables that the mapping may take beyond the existing ones. `placed`: its
  // address is known. Returns 0 for an unknown range, where nothing can be mapped.
  [[nodiscard]] std::uint64_t Need(std::uint64_t range, const DmaMapping& mapping, bool placed);
  void Add(std::uint64_t range, const DmaMapping& mapping);
  // Removes mappings. `length` 0: the one that begins at `start`; else all parts of mappings in the
  // range.
  void Remove(std::uint64_t range, ledger::Handle device, std::uint64_t start,
              std::uint64_t length);

  // Forgets the object, which is gone, and no other.
  void Forget(std::uint64_t object);
  // Forgets all objects that are gone.
  template <class IsThere>
  void Sweep(const IsThere& is_there) {
    for (const ledger::ObjectRef object : Objects()) {
      if (!is_there(object)) {
        Forget(object.serial);
      }
    }
  }

  [[nodiscard]] std::uint64_t Bytes(ledger::Gpu gpu) const;

  // Hand-over (state.cc): records within the open one. `gpus`: the number of GPUs.
  void Save(StateWriter& writer) const;
  void Load(StateReader& reader, ledger::Gpu gpus);

 private:
  using SpaceKey = std::pair<ledger::Gpu, std::uint64_t>;
  using Mappings = std::multimap<std::uint64_t, DmaMapping>;              // by start
  using Place = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // memory, range, start

  struct Range {
    ledger::Handle handle = 0;
    std::uint64_t space = 0;
    ledger::Gpu gpu = 0;
    RangeTables tables = RangeTables::kOfMappings;
    Mappings mappings;
    std::map<std::uint64_t, std::uint64_t> kept;  // start to end, in units of the lowest tables
  };
  struct Space {
    PageTables tables;
    PageTables more;  // of mappings with both kinds of pages: the second kind
    [[nodiscard]] std::uint64_t Bytes() const;
  };
  [[nodiscard]] std::vector<ledger::ObjectRef> Objects() const;
  void LoadRange(StateReader& reader, ledger::Gpu gpus);
  void LoadMapping(StateReader& reader);
  void LoadKept(StateReader& reader);
  void Count(const Range& range, const DmaMapping& mapping);
  void Uncount(const Range& range, const DmaMapping& mapping);
  // Return the parts of a mapping whose tables are not kept yet, and keep them.
  [[nodiscard]] static AddressRanges Unkept(const Range& range, const DmaMapping& mapping);
  void Keep(Range& range, const AddressRange& part);
  void DropKept(Range& range);
  void Erase(std::uint64_t serial, Range& range, Mappings::iterator mapping);

  ledger::ClientRef client_;
  ledger::ProcessKey owner_;
  std::map<std::uint64_t, Range> ranges_;  // by serial number
  std::map<SpaceKey, Space> spaces_;
  std::multiset<Place> mapped_in_;
  std::size_t kept_ = 0;  // in all ranges
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_DMA_TRACKER_H_
