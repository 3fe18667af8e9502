#include "grant/grant.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

namespace cgpu {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kMibPerUnit = 1024;

std::uint64_t MibOf(const Card& card) {
  return card.memory_bytes / kMib;
}

std::string Mib(std::uint64_t bytes) {
  return std::to_string(bytes / kMib) + " MiB";
}

std::string NameOf(const Card& card) {
  return "GPU " + std::to_string(card.index) + " (" + card.model + ")";
}

std::string Plural(std::uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string WhatThereIs(const std::vector<Card>& cards) {
  std::string text = "this node has " + Plural(cards.size(), "GPU");
  for (std::size_t i = 0; i < cards.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + std::to_string(cards[i].index);
  }
  return text;
}

Result<std::uint64_t> UnitsOnCard(std::uint64_t total, const Card& card, std::size_t card_count) {
  if (total % card_count != 0) {
    return Error{
        Code::kInvalid, 0,
        Plural(total, "unit") + " cannot be divided evenly over " + Plural(card_count, "GPU"),
        "--units is the total over the GPUs: give a multiple of " + std::to_string(card_count)};
  }
  const std::uint64_t units = total / card_count;
  if (units > UnitsOf(card)) {
    return Error{Code::kExhausted, 0,
                 Plural(units, "unit") + " asked on " + NameOf(card) + ", which has " +
                     std::to_string(UnitsOf(card)),
                 "a unit is 1 GiB of the GPU's " + std::to_string(MibOf(card)) + " MiB"};
  }
  return MibOf(card) * units / UnitsOf(card) * kMib;
}

// Compares without regard to case: hex digits and "GPU-".
bool StartsWith(const std::string& text, const std::string& prefix) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c + 0; };
  return prefix.size() <= text.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

bool AllDigits(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::size_t> FindByIndex(const std::string& device, const std::vector<Card>& cards) {
  unsigned index = 0;
  const auto [tail, ec] = std::from_chars(device.data(), device.data() + device.size(), index);
  const auto found = std::ranges::find(cards, index, &Card::index);
  if (ec != std::errc() || tail != device.data() + device.size() || found == cards.end()) {
    return Error{Code::kNotFound, 0, "there is no GPU " + device, WhatThereIs(cards)};
  }
  return static_cast<std::size_t>(found - cards.begin());
}

Result<std::size_t> FindByUuid(const std::string& device, const std::vector<Card>& cards) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    constexpr std::size_t kPrefix = 4;  // "GPU-"
    if ((device.size() > kPrefix && StartsWith(cards[i].uuid, device)) ||
        StartsWith(cards[i].uuid.substr(std::min(kPrefix, cards[i].uuid.size())), device)) {
      found.push_back(i);
    }
  }
  if (found.empty()) {
    return Error{Code::kNotFound, 0, "there is no GPU with the UUID " + device,
                 WhatThereIs(cards) + "; `cgpu smi -L` lists their UUIDs"};
  }
  if (found.size() > 1) {
    return Error{Code::kInvalid, 0,
                 "the UUID " + device + " is ambiguous: it fits " + NameOf(cards[found[0]]) +
                     " and " + NameOf(cards[found[1]]),
                 "give more of it; `cgpu smi -L` lists the UUIDs"};
  }
  return found[0];
}

Result<std::vector<std::size_t>> SelectDevices(const std::vector<std::string>& devices,
                                               const std::vector<Card>& cards) {
  std::vector<std::size_t> chosen;
  for (const std::string& device : devices) {
    CGPU_ASSIGN_OR_RETURN(
        auto found, AllDigits(device) ? FindByIndex(device, cards) : FindByUuid(device, cards));
    if (std::ranges::find(chosen, found) != chosen.end()) {
      return Error{Code::kInvalid, 0, NameOf(cards[found]) + " is named twice",
                   "name each GPU once"};
    }
    chosen.push_back(found);
  }
  return chosen;
}

Result<std::vector<std::size_t>> Select(const GpuRequest& request, const std::vector<Card>& cards) {
  if (cards.empty()) {
    return Error{Code::kNotFound, 0, "this node has no GPU", {}};
  }
  if (request.kind == GpuRequest::Kind::kDevices) {
    return SelectDevices(request.devices, cards);
  }
  std::size_t count = cards.size();
  if (request.kind == GpuRequest::Kind::kCount) {
    if (request.count > cards.size()) {
      return Error{Code::kNotFound, 0, Plural(request.count, "GPU") + " asked", WhatThereIs(cards)};
    }
    count = request.count;
  }
  std::vector<std::size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  return chosen;
}

// Returns the bytes that all requests of the list come to; they must agree.
Result<std::uint64_t> AgreedLimit(const std::vector<MemoryRequest>& requests, const Card& card,
                                  std::size_t card_count) {
  if (requests.empty()) {
    return LimitOnCard(MemoryRequest{}, card, card_count);
  }
  auto limit = LimitOnCard(requests.front(), card, card_count);
  for (const MemoryRequest& request : requests) {
    auto other = LimitOnCard(request, card, card_count);
    if (!other.ok()) {
      return other;
    }
    if (*other != *limit) {
      return Error{Code::kConflict, 0,
                   "memory is given twice and differs: " + Mib(*limit) + " and " + Mib(*other) +
                       " on " + NameOf(card),
                   "set CGPU_MEM or the ALIYUN_COM_GPU_MEM_ names, not both"};
    }
  }
  return limit;
}

Result<std::vector<std::size_t>> AgreedCards(const std::vector<GpuRequest>& requests,
                                             const std::vector<Card>& cards) {
  if (requests.empty()) {
    return Select(GpuRequest{}, cards);
  }
  auto chosen = Select(requests.front(), cards);
  for (const GpuRequest& request : requests) {
    auto other = Select(request, cards);
    if (!other.ok()) {
      return other;
    }
    if (std::set<std::size_t>(other->begin(), other->end()) !=
        std::set<std::size_t>(chosen->begin(), chosen->end())) {
      return Error{Code::kConflict, 0, "the GPUs are given twice and differ",
                   "set CGPU_DEVICES or ALIYUN_COM_GPU_VISIBLE_DEVICES, not both"};
    }
  }
  return chosen;
}

Result<> HasRoom(const Card& card, const CardUse& use, std::uint64_t wanted) {
  CGPU_TRY(HasPlace(card, use));
  return FitsOnCard(card, use.bytes, wanted);
}

Result<> AddWholeCards(const GpuRequest& request, const std::vector<Card>& cards,
                       const std::vector<CardUse>& uses, Grant& grant) {
  CGPU_ASSIGN_OR_RETURN(const auto named, Select(request, cards));
  for (const std::size_t i : named) {
    const bool there = std::ranges::any_of(
        grant.cards, [&](const CardGrant& other) { return other.card.uuid == cards[i].uuid; });
    if (!there) {
      CGPU_TRY(HasRoom(cards[i], uses[i], cards[i].memory_bytes));
      grant.cards.push_back({cards[i], cards[i].memory_bytes});
    }
  }
  std::ranges::sort(grant.cards, [](const CardGrant& x, const CardGrant& y) {
    return x.card.index < y.card.index;
  });
  return {};
}

bool IsCount(const ResourceRequest& request) {
  return request.gpus.size() == 1 && request.gpus[0].kind == GpuRequest::Kind::kCount;
}

}  // namespace

std::uint64_t UnitsOf(const Card& card) {
  return MibOf(card) / kMibPerUnit;
}

Result<std::uint64_t> LimitOnCard(const MemoryRequest& request, const Card& card,
                                  std::size_t card_count) {
  std::uint64_t bytes = 0;
  switch (request.kind) {
    case MemoryRequest::Kind::kWholeCard:
      bytes = card.memory_bytes;
      break;
    case MemoryRequest::Kind::kMib:
      bytes = request.value * kMib;
      break;
    case MemoryRequest::Kind::kPercent:
      bytes = MibOf(card) * request.value / 100 * kMib;
      break;
    case MemoryRequest::Kind::kFraction:
      bytes = MibOf(card) * request.value / std::max<std::uint64_t>(request.of, 1) * kMib;
      break;
    case MemoryRequest::Kind::kUnits: {
      auto limit = UnitsOnCard(request.value, card, card_count);
      if (!limit.ok()) {
        return limit;
      }
      bytes = *limit;
      break;
    }
  }
  if (bytes == 0) {
    return Error{Code::kInvalid, 0, "the memory asked comes to nothing on " + NameOf(card),
                 "ask for at least 1 MiB"};
  }
  if (bytes > card.memory_bytes) {
    return Error{Code::kExhausted, 0,
                 Mib(bytes) + " asked on " + NameOf(card) + ", which has " + Mib(card.memory_bytes),
                 "memory is per GPU: ask for at most what each GPU has"};
  }
  return bytes;
}

Result<std::vector<Card>> SelectCards(const GpuRequest& request, const std::vector<Card>& cards) {
  CGPU_ASSIGN_OR_RETURN(auto chosen, Select(request, cards));
  std::vector<Card> selected;
  for (const std::size_t i : chosen) {
    selected.push_back(cards[i]);
  }
  return selected;
}

Result<> FitsOnCard(const Card& card, std::uint64_t granted, std::uint64_t wanted) {
  const std::uint64_t free = card.memory_bytes - std::min(granted, card.memory_bytes);
  if (wanted <= free) {
    return {};
  }
  return Error{Code::kExhausted, 0,
               Mib(wanted) + " asked on " + NameOf(card) + ", where " + Mib(free) + " of " +
                   Mib(card.memory_bytes) + " are free: running containers were granted " +
                   Mib(granted),
               "ask for at most " + Mib(free) + ", or see `cgpu ps` for what is running"};
}

Result<> HasPlace(const Card& card, const CardUse& use) {
  if (use.slices < use.max_inst) {
    return {};
  }
  return Error{Code::kExhausted, 0,
               NameOf(card) + " has " + Plural(use.slices, "slice") +
                   " already, and its max_inst is " + std::to_string(use.max_inst),
               "take another GPU, end a container (see `cgpu ps`), or raise max_inst (cgpu "
               "policy --max-inst, or /etc/cgpu/config.yaml)"};
}

Result<Grant> MakeGrant(const ResourceRequest& request, const std::vector<Card>& cards,
                        const std::vector<CardUse>& uses) {
  CGPU_ASSIGN_OR_RETURN(auto chosen, AgreedCards(request.gpus, cards));
  if (IsCount(request)) {
    // Takes the first GPUs with room; where there are too few, the first GPUs, whose error says
    // what is free.
    std::vector<std::size_t> roomy;
    for (std::size_t i = 0; i < cards.size() && roomy.size() < chosen.size(); ++i) {
      const auto limit = AgreedLimit(request.memory, cards[i], chosen.size());
      if (limit.ok() && HasRoom(cards[i], uses[i], *limit).ok()) {
        roomy.push_back(i);
      }
    }
    if (roomy.size() == chosen.size()) {
      chosen = std::move(roomy);
    }
  }
  Grant grant;
  for (const std::size_t i : chosen) {
    CGPU_ASSIGN_OR_RETURN(auto limit, AgreedLimit(request.memory, cards[i], chosen.size()));
    CGPU_TRY(HasRoom(cards[i], uses[i], limit));
    grant.cards.push_back({cards[i], limit});
  }
  if (request.whole) {
    CGPU_TRY(AddWholeCards(*request.whole, cards, uses, grant));
  }
  return grant;
}

}  // namespace cgpu
