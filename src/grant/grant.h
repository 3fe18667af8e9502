// What a container may use: a set of cards and, per card, bytes of memory. Pure: parsed requests
// (request.h) and the node's cards in, a Grant or a sentence that says why not out.
//
// The arithmetic is the contract's: a card has floor(MiB / 1024) units, and what a container sees
// of it is floor(physical MiB * its units / the card's units) MiB.
#ifndef CGPU_GRANT_GRANT_H_
#define CGPU_GRANT_GRANT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "grant/request.h"

namespace cgpu {

// One physical card of the node.
struct Card {
  std::string uuid;          // "GPU-8-4-4-4-12 hex digits"
  unsigned index = 0;        // in the node's enumeration: what a user calls it
  unsigned minor = 0;        // of /dev/nvidia<minor>
  std::string bdf;           // "0000:01:00.0"
  std::uint32_t gpu_id = 0;  // the driver's, from NV0000_CTRL_CMD_GPU_GET_PROBED_IDS
  std::string model;
  std::uint64_t memory_bytes = 0;
};

struct CardGrant {
  Card card;
  std::uint64_t limit_bytes = 0;
};

// Slices that a card may have at a time where nothing else is said, and the most that can be said
// (the contract's max_inst).
inline constexpr unsigned kDefaultMaxInst = 20;
inline constexpr unsigned kMostMaxInst = 64;

// What running containers have of a card.
struct CardUse {
  std::uint64_t bytes = 0;  // granted to them
  unsigned slices = 0;      // how many they are
  unsigned max_inst = kDefaultMaxInst;
};

// In this order the cards count from 0 inside the container.
struct Grant {
  std::vector<CardGrant> cards;
};

// floor(MiB / 1024): the units a card offers.
[[nodiscard]] std::uint64_t UnitsOf(const Card& card);

// What `request` comes to on `card`, as one of `card_count` cards of the grant. kInvalid when units
// do not divide evenly over the cards; kExhausted when it is more than the card has, or nothing.
[[nodiscard]] Result<std::uint64_t> LimitOnCard(const MemoryRequest& request, const Card& card,
                                                std::size_t card_count);

// The cards that `request` names, in its order. For a count, the first ones. kNotFound for an
// unknown or missing card, kInvalid for one named twice or ambiguously.
[[nodiscard]] Result<std::vector<Card>> SelectCards(const GpuRequest& request,
                                                    const std::vector<Card>& cards);

// kExhausted, and what is free, unless `wanted` bytes fit beside `granted` bytes on the card.
[[nodiscard]] Result<> FitsOnCard(const Card& card, std::uint64_t granted, std::uint64_t wanted);

// kExhausted unless the card may have a slice more.
[[nodiscard]] Result<> HasPlace(const Card& card, const CardUse& use);

// The whole decision. `uses` says for each of `cards` (same order) what running containers have
// already. A count takes the first cards with room; every other choice is the user's own. Two
// requests of a kind (the two families of environment names) must come to the same
// cards and bytes, else kConflict. With cards beside them that are given whole, all come in the
// node's order.
[[nodiscard]] Result<Grant> MakeGrant(const ResourceRequest& request,
                                      const std::vector<Card>& cards,
                                      const std::vector<CardUse>& uses);

}  // namespace cgpu

#endif  // CGPU_GRANT_GRANT_H_
