// How much of a card's pools a slice may hold. The driver hands these out to whoever asks first, so
// one tenant could take them all and nobody else would open a context any more.
//
// | pool | a slice has at most |
// |---|---|
// | channel ids: 2048 in a runlist, or on the card | 15 + 960 x its part of the card's memory |
// | channel group ids: as many | the same; a channel without a group counts as one, too |
// | BAR1 | its part of 31/32 of it: the rest is the driver's |
//
// So the slices of a card, up to 64 of them, never hold more than 1920 ids together and the driver
// keeps 128 for itself. On Ampere and later each runlist has ids of its own; all of a slice's
// channels are counted as of one. Per container, whatever its cards: 1024 clients, 262,144 objects,
// 256 channel groups, 512 channels and 65,536 views of memory, each of which takes memory of the
// kernel's.
#ifndef CGPU_BOUNDARY_QUOTAS_H_
#define CGPU_BOUNDARY_QUOTAS_H_

#include <cstdint>

#include "ledger/ledger.h"

namespace cgpu::boundary {

inline constexpr ledger::Bounds kContainerBounds = {
    .clients = 1024, .handles = 262144, .channel_groups = 256, .channels = 512, .mappings = 65536};

// Of a slice of `limit` bytes of a card that has `total` bytes and a BAR1 of `bar1` bytes. `total`
// 0 is taken for `limit`.
[[nodiscard]] ledger::CardBounds BoundsOf(std::uint64_t limit, std::uint64_t total,
                                          std::uint64_t bar1);

// What a view of `length` bytes at `offset` takes of BAR1: whole pages (kern_bus_gm107.c
// kbusMapFbAperture_GM107()). The largest number where that overflows.
[[nodiscard]] std::uint64_t Bar1Bytes(std::uint64_t offset, std::uint64_t length,
                                      std::uint64_t page_bytes);

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_QUOTAS_H_
