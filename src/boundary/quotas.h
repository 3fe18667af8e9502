// How much of a card's pools a slice may hold. The driver hands these out to whoever asks first, so
// one tenant could take them all and nobody else would open a context any more.
//
// | pool | a slice has at most |
// |---|---|
// | channel ids: 2048 in a runlist, or on the card | 48 + 960 x its part of the card's memory |
// | channel group ids: as many | the same; a channel without a group counts as one, too |
// | BAR1 | its part of 31/32 of it: the rest is the driver's |
// | encoder sessions: 8 on a GeForce | its part of 8, but one at the least |
//
// A CUDA context takes 20 channels in 4 groups (recorded: TITAN RTX, 555.42.02), with
// CUDA_DEVICE_MAX_CONNECTIONS=32 about 45 (8 of those 20 are the connections; reckoned, not
// recorded): the smallest slice has room for one of these.
//
// So the slices of a card, up to 20 of them, never hold more than 1920 ids together and the driver
// keeps 128 for itself. Of more slices than that each still has its bound, but all of them at their
// bounds would hold more ids than there are. On Ampere and later each runlist has ids of its own;
// all of a slice's channels are counted as of one, since which copy engines share the runlist of
// graphics is a matter of the chip.
//
// The number of encoder sessions is on record for GeForce cards alone (the ninth is answered with
// 0x69; RTX 3090, 580.159.04). The firmware counts them, not the open driver, and no command tells
// how many there are: so every card is taken to have 8.
//
// Per container, whatever its cards: 1024 clients, 262,144 objects, 256 channel groups, 512
// channels, 256 debuggers (a context has one) and memory mappers together and 65,536 views of
// memory, each of which takes memory of the kernel's. So do, of what is not in the ledger:
//
// | what | a container has at most |
// |---|---|
// | events of the system | 1024: a context makes 8, and 512 channels are those of 25 contexts |
// | shares with a client, and address spaces registered for third parties | 16,384 |
// | places in the queue of a memory mapper | 4096 in each: so many does one command fill |
// | range groups of UVM | 65,536: a context makes 9 |
#ifndef CGPU_BOUNDARY_QUOTAS_H_
#define CGPU_BOUNDARY_QUOTAS_H_

#include <cstddef>
#include <cstdint>

#include "ledger/ledger.h"

namespace cgpu::boundary {

inline constexpr ledger::Bounds kContainerBounds = {.clients = 1024,
                                                    .handles = 262144,
                                                    .channel_groups = 256,
                                                    .channels = 512,
                                                    .mappings = 65536,
                                                    .debuggers = 256};

inline constexpr std::size_t kMaxOsEvents = 1024;
inline constexpr std::uint64_t kMaxEntries = 16384;
inline constexpr std::uint32_t kMaxMapperQueue = 4096;
inline constexpr std::uint64_t kMaxRangeGroups = 65536;

// Of a slice of `limit` bytes of a card that has `total` bytes and a BAR1 of `bar1` bytes. `total`
// 0 is taken for `limit`.
[[nodiscard]] ledger::CardBounds BoundsOf(std::uint64_t limit, std::uint64_t total,
                                          std::uint64_t bar1);

// How many encoder sessions of a card a slice may have.
[[nodiscard]] std::uint32_t EncodersOf(std::uint64_t limit, std::uint64_t total);

// What a view of `length` bytes at `offset` takes of BAR1: whole pages (kern_bus_gm107.c
// kbusMapFbAperture_GM107()). The largest number where that overflows.
[[nodiscard]] std::uint64_t Bar1Bytes(std::uint64_t offset, std::uint64_t length,
                                      std::uint64_t page_bytes);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_QUOTAS_H_
