// Quotas of a slice in a GPU's pools. The driver gives these to the first that asks, so one tenant
// could take them all and nobody else could open a context any more.
//
// | pool | a slice has at most |
// |---|---|
// | channel ids: 2048 in a runlist, or on the GPU | 48 + 960 x its part of the GPU's memory |
// | channel group ids: as many | the same; a channel without a group counts as one, too |
// | BAR1 | its part of 31/32 of it: the rest is the driver's |
// | encoder sessions: 8 on a GeForce | its part of 8, but at least one |
//
// A CUDA context takes 20 channels in 4 groups (recorded: TITAN RTX, 555.42.02), with
// CUDA_DEVICE_MAX_CONNECTIONS=32 about 45 (8 of those 20 are the connections; computed, not
// recorded): the smallest slice has room for one of these.
//
// So the slices of a GPU, up to 20 of them, never hold more than 1920 ids together, and the driver
// keeps 128 for itself. With more slices each still has its quota, but all of them at their quotas
// would hold more ids than there are. On Ampere and later each runlist has ids of its own. All
// channels of a slice are counted as if in one runlist, because the chip decides which copy engines
// share the runlist of graphics.
//
// The number of encoder sessions is on record for GeForce GPUs alone (the ninth is answered with
// 0x69; RTX 3090, 580.159.04). The firmware counts them, not the open driver, and no command
// reports the number: so every GPU is taken to have 8.
//
// Quotas of a container, whatever its GPUs: 1024 clients, 262,144 objects, 256 channel groups, 512
// channels, 65,536 views of memory, and 256 debuggers (a context has one), memory mappers and
// sessions of NVENC together. Each of them takes memory of the kernel's. So do the following, which
// are not in the ledger:
//
// * 1024 OS events: a context makes 8 (tests/gpu/records/555/cuctxcreate.txt), and 512
//   channels are those of 25 contexts.
// * 16,384 shares with a client and address spaces registered for third parties, together.
// * 4096 places in the queue of each memory mapper: one command fills as many.
// * 65,536 range groups of UVM: a context makes 9 (the same record).
// * 262,144 ranges in each of UVM's address spaces.
// * 256 MiB of UVM's semaphore pools, which are the host's memory: a context makes one of 2 MiB
//   (the same record).
// * 4096 event objects of each class, which the driver goes through at each interrupt: a context
//   makes 8. Likewise objects of two classes that the firmware keeps (MostOf()).
// * 262,144 mappings by RM_MAP_MEMORY_DMA.
#ifndef CGPU_BOUNDARY_QUOTAS_H_
#define CGPU_BOUNDARY_QUOTAS_H_

#include <cstddef>
#include <cstdint>

#include "ledger/ledger.h"

namespace cgpu::boundary {

inline constexpr ledger::Quotas kContainerQuotas = {.clients = 1024,
                                                    .handles = 262144,
                                                    .channel_groups = 256,
                                                    .channels = 512,
                                                    .mappings = 65536,
                                                    .debuggers = 256};

inline constexpr std::size_t kMaxOsEvents = 1024;
inline constexpr std::uint64_t kMaxEntries = 16384;
inline constexpr std::uint32_t kMaxMapperQueue = 4096;
inline constexpr std::uint64_t kMaxRangeGroups = 65536;
inline constexpr std::size_t kMaxRanges = 262144;
inline constexpr std::uint64_t kMaxPoolBytes = std::uint64_t{256} << 20;
inline constexpr std::size_t kMaxDmaMappings = 262144;

// Returns the quotas of a slice of `limit` bytes, on a GPU that has `total` bytes and a BAR1 of
// `bar1` bytes. `total` 0 means `limit`.
[[nodiscard]] ledger::GpuQuotas QuotasOf(std::uint64_t limit, std::uint64_t total,
                                         std::uint64_t bar1);

// Returns the most objects of a class that a container has, besides those of Quotas.
[[nodiscard]] std::uint32_t MostOf(std::uint32_t cls);

// Returns the number of a GPU's encoder sessions that a slice may have.
[[nodiscard]] std::uint32_t EncodersOf(std::uint64_t limit, std::uint64_t total);

// Returns the bytes of BAR1 that a view of `length` bytes at `offset` takes: whole pages
// (kern_bus_gm107.c kbusMapFbAperture_GM107()). Saturates.
[[nodiscard]] std::uint64_t Bar1Bytes(std::uint64_t offset, std::uint64_t length,
                                      std::uint64_t page_bytes);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_QUOTAS_H_
