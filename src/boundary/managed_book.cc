#include "boundary/managed_book.h"

#include <algorithm>

namespace cgpu::boundary {
namespace {

ledger::ExtraKey KeyOf(ledger::ProcessKey process) {
  constexpr std::uint64_t kManaged = 1;  // the keys of UVM spaces are above
  return {process, kManaged};
}

}  // namespace

std::optional<ledger::Card> ManagedBook::Charge(ledger::ProcessKey process, Thread thread,
                                                AddressRange range) {
  Over(thread);
  Begin(thread, {process, range, false, 0});
  const auto full = TryCharge(process, BytesOf(process));
  if (full) {
    now_.erase(thread);
  }
  return full;
}

void ManagedBook::Watch(ledger::ProcessKey process, Thread thread, AddressRange range) {
  Over(thread);
  Begin(thread, {process, range, true, 0});
}

void ManagedBook::Begin(Thread thread, Mapping mapping) {
  now_[thread] = mapping;
  shown_.try_emplace(mapping.process);
}

void ManagedBook::Over(Thread thread) {
  const auto found = now_.find(thread);
  if (found == now_.end()) {
    return;
  }
  Mapping mapping = found->second;
  now_.erase(found);
  if (any_space_) {
    mapping.over_at = clock_;
    over_.push_back(mapping);
  } else if (!mapping.watched) {
    (void)TryCharge(mapping.process, BytesOf(mapping.process));  // less than before
  }
}

std::vector<ledger::ProcessKey> ManagedBook::Processes() const {
  std::vector<ledger::ProcessKey> all;
  all.reserve(shown_.size());
  for (const auto& [process, shown] : shown_) {
    all.push_back(process);
  }
  return all;
}

std::vector<ManagedBook::Thread> ManagedBook::Unfinished() const {
  std::vector<Thread> all;
  all.reserve(now_.size());
  for (const auto& [thread, mapping] : now_) {
    all.push_back(thread);
  }
  return all;
}

bool ManagedBook::Settle(ledger::ProcessKey process, Look look, std::vector<AddressRange> shown) {
  const auto found = shown_.find(process);
  if (found == shown_.end()) {
    return true;
  }
  const auto appeared = [&](const Mapping& mapping) {
    return mapping.process == process && mapping.watched &&
           std::any_of(shown.begin(), shown.end(), [&](const AddressRange& range) {
             return range.start < mapping.range.end && mapping.range.start < range.end;
           });
  };
  bool intent = std::any_of(over_.begin(), over_.end(), appeared);
  for (const auto& [thread, mapping] : now_) {
    intent = intent || appeared(mapping);
  }
  found->second = std::move(shown);
  std::erase_if(over_, [&](const Mapping& mapping) {
    return mapping.process == process && mapping.over_at < look;
  });
  const std::uint64_t bytes = BytesOf(process);
  bool fits = true;
  if (intent) {
    fits = !TryCharge(process, bytes);
  }
  for (const ledger::Card card : cards_) {
    ledger_.ForceExtra(KeyOf(process), card, bytes);
  }
  const bool idle = std::none_of(
      now_.begin(), now_.end(), [&](const auto& entry) { return entry.second.process == process; });
  if (bytes == 0 && idle && std::none_of(over_.begin(), over_.end(), [&](const Mapping& mapping) {
        return mapping.process == process;
      })) {
    shown_.erase(process);
  }
  return fits;
}

void ManagedBook::Remove(ledger::ProcessKey process) {
  shown_.erase(process);
  std::erase_if(now_, [&](const auto& entry) { return entry.second.process == process; });
  std::erase_if(over_, [&](const Mapping& mapping) { return mapping.process == process; });
  for (const ledger::Card card : cards_) {
    ledger_.ForceExtra(KeyOf(process), card, 0);
  }
}

bool ManagedBook::SetCards(const std::set<ledger::Card>& cards) {
  const std::set<ledger::Card> before = cards_;
  for (const ledger::Card card : cards) {
    for (const auto& [process, shown] : shown_) {
      if (before.contains(card) || ledger_.SetExtra(KeyOf(process), card, BytesOf(process)).ok()) {
        continue;
      }
      for (const ledger::Card added : cards) {
        for (const auto& [other, ignored] : shown_) {
          if (!before.contains(added)) {
            ledger_.ForceExtra(KeyOf(other), added, 0);
          }
        }
      }
      return false;
    }
  }
  for (const ledger::Card card : before) {
    for (const auto& [process, shown] : shown_) {
      if (!cards.contains(card)) {
        ledger_.ForceExtra(KeyOf(process), card, 0);
      }
    }
  }
  cards_ = cards;
  return true;
}

void ManagedBook::Resume(const std::set<ledger::Card>& cards) {
  cards_ = cards;
  for (const ledger::Card card : cards_) {
    for (const auto& [process, shown] : shown_) {
      ledger_.ForceExtra(KeyOf(process), card, BytesOf(process));
    }
  }
}

std::uint64_t ManagedBook::BytesOf(ledger::ProcessKey process) const {
  std::vector<AddressRange> ranges;
  if (const auto found = shown_.find(process); found != shown_.end()) {
    ranges = found->second;
  }
  const auto add = [&](const Mapping& mapping) {
    if (mapping.process == process && !mapping.watched) {
      ranges.push_back(mapping.range);
    }
  };
  for (const auto& [thread, mapping] : now_) {
    add(mapping);
  }
  std::for_each(over_.begin(), over_.end(), add);
  return ManagedBytes(std::move(ranges));
}

// All cards or none, for want of room on the returned one.
std::optional<ledger::Card> ManagedBook::TryCharge(ledger::ProcessKey process,
                                                   std::uint64_t bytes) {
  std::map<ledger::Card, std::uint64_t> before;
  for (const ledger::Card card : cards_) {
    const std::uint64_t old = ledger_.Extra(KeyOf(process), card);
    if (!ledger_.SetExtra(KeyOf(process), card, bytes).ok()) {
      for (const auto& [charged, value] : before) {
        ledger_.ForceExtra(KeyOf(process), charged, value);
      }
      return card;
    }
    before[card] = old;
  }
  return std::nullopt;
}

}  // namespace cgpu::boundary
