// Enters RM's objects into the ledger and takes them off it, with the page tables of their
// mappings: what several call families do.
#ifndef CGPU_BOUNDARY_OBJECTS_H_
#define CGPU_BOUNDARY_OBJECTS_H_

#include <cstdint>
#include <optional>

#include "boundary/container.h"
#include "boundary/decision.h"
#include "rm/nv_alloc.h"

namespace cgpu::boundary {

// Reserves an object of `bytes` below the call's object, or answers the call.
[[nodiscard]] Decision Reserve(Container& container, Call& call, Decision decision,
                               ledger::Kind kind, std::uint64_t bytes);
// Reserves a VA range with its page tables, likewise.
[[nodiscard]] Decision ReserveInterval(Container& container, Call& call, Decision decision,
                                       std::uint64_t size, std::uint32_t flags, std::uint32_t attr);

// Returns true if `handle` is memory of the client's that lies on no GPU and that it shares with
// nobody outside of the container.
[[nodiscard]] bool IsOwnHostMemory(const Container& container, ledger::ClientRef client,
                                   std::uint32_t handle);
// Returns true if `handle` is memory that all tenants share (policy.h, IsSharedMemory()).
[[nodiscard]] bool NamesSharedMemory(const Container& container, ledger::ClientRef client,
                                     std::uint32_t handle);

// Returns true if `handle` is an address space, or an object in one, of another GPU than `gpu`. The
// driver does not compare the two (vaspace.c vaspaceGetByHandleOrDeviceDefault_IMPL(),
// vaspace_api.c vaspaceapiCopyConstruct_IMPL()), and page tables lie on the address space's GPU.
[[nodiscard]] bool IsSpaceOfOtherGpu(const Container& container, ledger::ClientRef client,
                                     std::uint32_t handle, std::optional<ledger::Gpu> gpu);

// An object that the driver has just made.
struct Made {
  std::uint32_t handle = 0;
  std::uint32_t cls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t page_bytes = 0;
  std::uint32_t engine = rm::NV2080_ENGINE_TYPE_NULL;  // of a channel group or a lone channel
};

// Turns the reservation of `decision` into an object below its parent.
[[nodiscard]] std::optional<Undo> AddMade(Container& container, Call& call, Decision& decision,
                                          const Made& made);
// Turns a reservation into a duplicate or an import, under `handle`.
[[nodiscard]] std::optional<Undo> AddCopy(Container& container, const Decision& decision,
                                          ledger::Reservation& reservation, std::uint32_t handle);
void FreeObject(Container& container, ledger::ClientRef client, ledger::ObjectRef object);

// --- Trackers of RM's own GPU mappings (dma_tracker.h).

// Key of a tracker's page tables in the ledger; UVM's spaces and managed memory have smaller
// numbers.
inline constexpr std::uint64_t kDmaExtra = std::uint64_t{1} << 62;
[[nodiscard]] ledger::ExtraKey KeyOf(const DmaTracker& tracker);
// Returns null if the client has none.
[[nodiscard]] DmaTracker* FindDmaTracker(Container& container, ledger::ClientRef client);
// Adds a range. `space`: the address space that it names, or 0 for its device's; an unknown one is
// the object's own.
void AddRange(Container& container, ledger::ClientRef client, std::uint32_t handle,
              std::optional<std::uint32_t> space, RangeTables tables);
// Sets the ledger's charge to what the tracker says.
void SettleDma(Container& container, const DmaTracker& tracker);
void DropDmaTracker(Container& container, std::uint32_t client);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_OBJECTS_H_
