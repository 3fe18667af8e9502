// Tracks what a container has in UVM's address spaces: one per open file of nvidia-uvm that was
// initialised.
//
// UVM keeps mapped memory alive by references of its own: memory whose handle has been freed stays
// on the GPU as long as a piece of it is mapped, a channel's buffers as long as the channel is
// registered (NVIDIA/open-gpu-kernel-modules 550.163.01 kernel-open/nvidia-uvm/uvm_map_external.c
// and uvm_user_channel.c). Each such reference is a hold here and an export in the ledger. Page
// tables are counted per space and GPU.
//
// Pure data; thread-compatible. Addresses and lengths are bytes; every range [start, end) is not
// empty and does not wrap.
#ifndef CGPU_BOUNDARY_UVM_TRACKER_H_
#define CGPU_BOUNDARY_UVM_TRACKER_H_

#include <cstdint>
#include <map>
#include <set>
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

class UvmSpace {
 public:
  using Hold = std::uint32_t;  // the index of its export in the ledger; 0: none

  explicit UvmSpace(ledger::ProcessKey owner) : owner_(owner) {}

  [[nodiscard]] ledger::ProcessKey owner() const { return owner_; }

  // --- Ranges that the tenant made, by their base.
  void AddRange(std::uint64_t base, std::uint64_t length);
  // Removes the range and every piece in it, on all GPUs.
  void RemoveRange(std::uint64_t base);
  [[nodiscard]] std::size_t ranges() const { return ranges_.size(); }
  // Notes that the range is a semaphore pool. UVM maps it on every GPU of the space, also on those
  // whose address space comes later (NVIDIA/open-gpu-kernel-modules 595.45.04
  // kernel-open/nvidia-uvm/uvm_va_space.c, uvm_va_range_add_gpu_va_space() in uvm_va_range.c). So
  // its tables, planned as a piece on every granted GPU, stay counted until it is removed.
  void AddPool(std::uint64_t base);
  // Returns the bytes of all pools. They lie in the host's memory.
  [[nodiscard]] std::uint64_t PoolBytes() const;

  // --- Range groups. The driver numbers them, and never names one twice in a space.
  void AddGroup() { ++groups_; }
  void RemoveGroup() { groups_ -= groups_ > 0 ? 1 : 0; }
  [[nodiscard]] std::uint32_t groups() const { return groups_; }

  // --- Pieces mapped into ranges, per GPU. The tables of a new piece are counted before the driver
  // is asked: PlanPiece(), then AddPiece() with the same arguments or DropPlan().
  void PlanPiece(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end);
  void DropPlan(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end);
  // Adds a piece; it replaces the parts of other pieces that it covers.
  void AddPiece(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end, Hold hold);
  void UnmapPieces(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end);

  // --- Channels by (client, channel). Their tables are planned as a piece's are.
  void AddChannel(std::pair<std::uint32_t, std::uint32_t> channel, ledger::Gpu gpu,
                  std::uint64_t start, std::uint64_t end, Hold hold);
  void RemoveChannel(std::pair<std::uint32_t, std::uint32_t> channel);
  // Notes addresses that are named for a channel: UVM puts what it maps for it somewhere in there.
  // The channels of a group share that, and the last one that goes takes it along, whatever
  // addresses it named itself, and whether it could be registered at last
  // (NVIDIA/open-gpu-kernel-modules 595.45.04 kernel-open/nvidia-uvm/uvm_user_channel.c,
  // find_va_range()). So these stay until the GPU's address space goes.
  void AddWindow(ledger::Gpu gpu, std::uint64_t start, std::uint64_t end);
  // Returns those of a GPU, in order and in whole pages.
  [[nodiscard]] AddressRanges Windows(ledger::Gpu gpu) const;
  // Returns true if channels on this GPU have named as many separate addresses as they may.
  [[nodiscard]] bool HasMostWindows(ledger::Gpu gpu) const;

  // --- GPUs: registered, and with an address space of the tenant's.
  void AddGpu(ledger::Gpu gpu) { gpus_.insert(gpu); }
  void AddVaSpace(ledger::Gpu gpu) { va_spaces_.insert(gpu); }
  // Removes the pieces and channels on the GPU too.
  void RemoveVaSpace(ledger::Gpu gpu);
  void RemoveGpu(ledger::Gpu gpu);
  [[nodiscard]] const std::set<ledger::Gpu>& gpus() const { return gpus_; }
  [[nodiscard]] const std::set<ledger::Gpu>& va_spaces() const { return va_spaces_; }

  // Returns a number for a new hold.
  [[nodiscard]] Hold NewHold();
  // Returns the holds that no piece and no channel uses any more, each once.
  [[nodiscard]] std::vector<Hold> TakeReleased() { return std::exchange(released_, {}); }

  // Returns the bytes of page tables on the GPU.
  [[nodiscard]] std::uint64_t Bytes(ledger::Gpu gpu) const;

  // Return everything that a teardown must ask the driver to give back.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> Ranges() const;
  [[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> Channels() const;
  [[nodiscard]] ledger::Gpu GpuOfChannel(std::pair<std::uint32_t, std::uint32_t> channel) const;

  // Hand-over (state.cc): records within the open one. No plan is open, and released holds have
  // been taken. `gpus`: the number of GPUs.
  void Save(StateWriter& writer) const;
  void Load(StateReader& reader, ledger::Gpu gpus);

 private:
  struct Piece {
    std::uint64_t end = 0;
    Hold hold = 0;
  };
  struct Channel {
    ledger::Gpu gpu = 0;
    std::uint64_t start = 0;
    std::uint64_t end = 0;  // equal to start: it has no range
    Hold hold = 0;
  };

  void LoadPool(StateReader& reader, ledger::Gpu gpus);
  void LoadWindow(StateReader& reader, ledger::Gpu gpus);
  void LoadPiece(StateReader& reader, ledger::Gpu gpus);
  void LoadChannel(StateReader& reader, ledger::Gpu gpus);
  void Use(Hold hold);
  void Leave(Hold hold);

  ledger::ProcessKey owner_;
  std::map<std::uint64_t, std::uint64_t> ranges_;  // base to length
  std::set<std::uint64_t> pools_;                  // bases of ranges
  std::map<ledger::Gpu, std::map<std::uint64_t, Piece>> pieces_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Channel> channels_;
  std::map<ledger::Gpu, AddressRanges> windows_;
  std::map<ledger::Gpu, PageTables> tables_;
  std::set<ledger::Gpu> gpus_;
  std::set<ledger::Gpu> va_spaces_;
  std::map<Hold, std::uint32_t> holds_;  // uses of each
  std::vector<Hold> released_;
  Hold last_hold_ = 0;
  std::uint32_t groups_ = 0;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_UVM_TRACKER_H_
