#include "boundary/container.h"

#include <algorithm>
#include <numeric>

#include "boundary/quotas.h"
#include "rm/nv_status.h"

namespace cgpu::boundary {
namespace {

// Returns the GPU that `is_it` holds for.
template <class Test>
std::optional<ledger::Card> FindCard(const std::vector<CardIds>& cards, const Test& is_it) {
  const auto found = std::ranges::find_if(cards, is_it);
  return found == cards.end() ? std::nullopt
                              : std::optional(static_cast<ledger::Card>(found - cards.begin()));
}

}  // namespace

Container::Container(const rm::Abi& driver, std::vector<CardIds> granted, ledger::Ledger& held)
    : abi(driver), cards(std::move(granted)), ledger(held), managed(held) {}

std::optional<ledger::Card> Container::CardOfGpuId(std::uint32_t gpu_id) const {
  return FindCard(cards, [&](const CardIds& card) { return card.gpu_id == gpu_id; });
}

std::optional<ledger::Card> Container::CardOfInstance(std::uint32_t instance) const {
  return FindCard(cards, [&](const CardIds& card) { return card.device_instance == instance; });
}

std::optional<ledger::Card> Container::CardOfUuid(const rm::NvProcessorUuid& uuid) const {
  return FindCard(cards, [&](const CardIds& card) { return card.uuid == uuid; });
}

bool Container::Lives(ledger::ClientRef client) const {
  const auto found = ledger.FindClient(client.handle);
  return found && found->ref == client;
}

// Adds an entry before the driver is asked: it makes the entry before it checks the rest. Returns
// false at the quota. Entries of clients that are gone are gone with them.
bool Container::AddEntry(ledger::ClientRef client) {
  const auto sum = [this] {
    return std::accumulate(
        entries.begin(), entries.end(), std::uint64_t{0},
        [](std::uint64_t all, const auto& one) { return all + one.second.count; });
  };
  if (sum() >= kMaxEntries) {
    std::erase_if(entries,
                  [this](const auto& one) { return !Lives({one.first, one.second.serial}); });
    if (sum() >= kMaxEntries) {
      return false;
    }
  }
  Entries& mine = entries[client.handle];
  if (mine.serial != client.serial) {
    mine = {client.serial, 0};
  }
  ++mine.count;
  return true;
}

Decision Container::Answer(Call& call, std::uint32_t status, Reason reason,
                           const std::string& what) {
  refusals.Count(what);
  SetStatus(call, status);
  Decision decision;
  decision.refused = reason;
  decision.action = Decision::Action::kAnswer;
  return decision;
}

Decision Container::Fail(int error, Reason reason, const std::string& what) {
  refusals.Count(what);
  Decision decision;
  decision.refused = reason;
  decision.error = error;
  return decision;
}

Decision Container::NoMemory(Call& call, ledger::Card card) {
  Decision refusal =
      Answer(call, rm::NV_ERR_NO_MEMORY, Reason::kMemoryLimit, "memory over the limit");
  refusal.over_limit = true;
  refusal.card = card;
  return refusal;
}

}  // namespace cgpu::boundary
