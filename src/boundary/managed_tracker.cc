#include "boundary/managed_tracker.h"

#include <algorithm>
#include <limits>

namespace cgpu::boundary {
namespace {

ledger::ExtraKey KeyOf(ledger::ProcessKey process) {
  constexpr std::uint64_t kManaged = 1;  // the keys of UVM spaces are above
  return {process, kManaged};
}

bool Overlap(const AddressRange& one, const AddressRange& other) {
  return one.start < other.end && other.start < one.end;
}

}  // namespace

std::optional<ledger::Gpu> ManagedTracker::Charge(Thread thread, const Claim& claim) {
  Over(thread);
  now_[thread].claim = claim;
  const auto full = TryCharge(claim.process, BytesOf(claim.process));
  if (full) {
    now_.erase(thread);
  }
  return full;
}

void ManagedTracker::Watch(Thread thread, const Claim& claim, AddressRanges before) {
  Over(thread);
  Mapping& mapping = now_[thread];
  mapping.claim = claim;
  mapping.watched = true;
  mapping.before = std::move(before);
}

void ManagedTracker::Over(Thread thread) {
  const auto found = now_.find(thread);
  if (found == now_.end()) {
    return;
  }
  Mapping mapping = std::move(found->second);
  now_.erase(found);
  mapping.over = true;
  mapping.over_at = clock_;
  over_.push_back(std::move(mapping));
}

bool ManagedTracker::IsKnown(std::uint64_t program) const {
  return std::ranges::any_of(
      spaces_, [&](const auto& entry) { return entry.second.programs.contains(program); });
}

// A mapping that was resolved since may have appeared in this address space after the look, and
// waits no more: another one that appears would be confused with it.
void ManagedTracker::Know(Look look, const Claim& claim, AddressRanges shown) {
  if (resolved_at_ >= look) {
    return;
  }
  spaces_.try_emplace(claim.witness,
                      Space{claim.process, {claim.program}, {}, std::move(shown), {}, {}, false});
}

bool ManagedTracker::Meets(const Claim& claim) const {
  const auto waiting = Waiting();
  return std::ranges::any_of(
             waiting, [&](const Mapping* one) { return Overlap(one->claim.range, claim.range); }) ||
         std::ranges::any_of(spaces_, [&](const auto& entry) {
           return entry.second.programs.contains(claim.program) &&
                  !Intersection({claim.range}, entry.second.seen).empty();
         });
}

AddressRanges ManagedTracker::Counted(const Claim& claim) const {
  AddressRanges counted;
  for (const auto& [witness, space] : spaces_) {
    if (space.process == claim.process) {
      counted = Union(counted, Intersection({claim.range}, space.counted));
    }
  }
  return counted;
}

bool ManagedTracker::Watches() const {
  return std::ranges::any_of(now_, [](const auto& entry) { return entry.second.watched; });
}

std::vector<ManagedTracker::Thread> ManagedTracker::Unfinished() const {
  std::vector<Thread> all;
  all.reserve(now_.size());
  for (const auto& [thread, mapping] : now_) {
    all.push_back(thread);
  }
  return all;
}

std::vector<ManagedTracker::Witness> ManagedTracker::Spaces() const {
  std::vector<Witness> all;
  all.reserve(spaces_.size());
  for (const auto& [witness, space] : spaces_) {
    all.push_back(witness);
  }
  return all;
}

bool ManagedTracker::Settle(Look look, SeenByWitness seen) {
  const Processes before = Payers();
  Processes intents;
  DoubtGone(seen);
  Recognise(seen, intents);
  SettleOwn(look, seen, intents);
  resolved_.clear();
  NoteResolved(look);
  for (auto& [witness, space] : spaces_) {
    const auto said = seen.find(witness);
    if (said != seen.end() && said->second.state == Seen::State::kShown) {
      CountShown(space, said->second.shown);
      space.seen = said->second.shown;
    }
    // A mapping that was not over may have appeared here after this look and before that of its own
    // space. It waits no more, and must not be confused with another later.
    space.seen = Union(space.seen, resolved_);
  }
  DropResolved();
  DropIdle(seen);
  return Recharge(before, intents);
}

// Finds the address spaces in which mappings have appeared: see the top of managed_tracker.h.
void ManagedTracker::Recognise(SeenByWitness& seen, Processes& intents) {
  std::map<Witness, AddressRanges> fresh;
  for (const auto& [witness, space] : spaces_) {
    const auto said = seen.find(witness);
    if (said != seen.end() && said->second.state == Seen::State::kShown) {
      fresh[witness] = Without(said->second.shown, space.seen);
    }
  }
  const std::vector<Mapping*> waiting = Waiting();
  std::map<Witness, Witness> joined;  // the successors of those that are gone
  for (Mapping* mapping : waiting) {
    AddressRanges others;
    for (const Mapping* other : waiting) {
      if (other != mapping && Overlap(other->claim.range, mapping->claim.range)) {
        others.push_back(other->claim.range);
      }
    }
    const AddressRanges own = Without({mapping->claim.range}, Ordered(std::move(others)));
    std::set<Witness> homes;
    for (const auto& [witness, ranges] : fresh) {
      if (!Intersection(own, ranges).empty()) {
        homes.insert(joined.contains(witness) ? joined[witness] : witness);
      }
    }
    if (homes.empty()) {
      continue;
    }
    const Witness kept = *homes.begin();
    homes.insert(mapping->claim.witness);  // of the same address space, if that is known as one
    for (const Witness other : homes) {
      if (other != kept && spaces_.contains(other)) {
        JoinInto(kept, other, seen);
        joined[other] = kept;
        for (auto& [from, to] : joined) {
          to = to == other ? kept : to;
        }
      }
    }
    Count(spaces_[kept], *mapping, PartOf(*mapping, seen.at(kept)), intents);
  }
}

// Each was looked at in a moment of its own; what either shows counts.
void ManagedTracker::JoinInto(Witness kept, Witness other, SeenByWitness& seen) {
  if (const auto said = seen.find(other); said != seen.end()) {
    seen[kept].shown = Union(seen[kept].shown, said->second.shown);
  }
  const auto found = spaces_.find(other);
  Merge(spaces_[kept], found->second);
  spaces_.erase(found);
  released_.push_back(other);
  for (Mapping* mapping : Waiting()) {
    if (mapping->claim.witness == other) {
      mapping->claim.witness = kept;
    }
  }
}

// Settles mappings whose own witness is that of a known address space.
void ManagedTracker::SettleOwn(Look look, const SeenByWitness& seen, Processes& intents) {
  for (Mapping* mapping : Waiting()) {
    const auto space = spaces_.find(mapping->claim.witness);
    const auto said = seen.find(mapping->claim.witness);
    if (mapping->resolved || space == spaces_.end() || said == seen.end()) {
      continue;
    }
    AddressRanges part = PartOf(*mapping, said->second);
    if (said->second.state == Seen::State::kHidden) {
      part = {mapping->claim.range};
    }
    // A watched one is in no sum, so it counts as soon as it is seen.
    if (mapping->WasOver(look) ||
        (mapping->watched && !part.empty() && said->second.state == Seen::State::kShown)) {
      Count(space->second, *mapping, part, intents);
    }
  }
}

// Addresses that were mapped before and are not any more may be mapped again: that is new.
AddressRanges ManagedTracker::PartOf(Mapping& mapping, const Seen& seen) {
  if (seen.state == Seen::State::kShown) {
    mapping.before = Intersection(mapping.before, seen.shown);
  }
  return Without(Intersection({mapping.claim.range}, seen.shown), mapping.before);
}

void ManagedTracker::Count(Space& space, Mapping& mapping, const AddressRanges& part,
                           Processes& intents) {
  mapping.resolved = true;
  if (mapping.claim.program != 0) {
    space.programs.insert(mapping.claim.program);
  }
  AddCounted(space, part);
  if (!mapping.watched) {
    // It was not made, or was unmapped since.
    AddDoubted(space, Without({mapping.claim.range}, part));
  }
  if (mapping.watched && !part.empty()) {
    intents.insert(space.process);
  }
}

std::vector<ManagedTracker::Witness> ManagedTracker::Unplaced(Look look) const {
  std::vector<Witness> all;
  for (const Mapping* mapping : Waiting()) {
    if ((mapping->WasOver(look) || mapping->watched) && !spaces_.contains(mapping->claim.witness)) {
      all.push_back(mapping->claim.witness);
    }
  }
  return all;
}

bool ManagedTracker::Place(Look look, Witness witness, const Seen& seen) {
  const Processes before = Payers();
  Processes intents;
  for (Mapping* mapping : Waiting()) {
    if (mapping->claim.witness != witness || spaces_.contains(witness)) {
      continue;
    }
    if (seen.state == Seen::State::kGone) {
      spaces_[witness].process = mapping->claim.process;
      DoubtAll(witness);
      break;
    }
    const bool over = mapping->WasOver(look);
    AddressRanges part = PartOf(*mapping, seen);
    if (seen.state == Seen::State::kHidden && over) {
      part = {mapping->claim.range};
    }
    if (part.empty() && (mapping->watched || !over)) {
      mapping->resolved = over;
      continue;
    }
    Space& space = spaces_[witness];
    space.process = mapping->claim.process;
    space.seen = seen.shown;
    Count(space, *mapping, part, intents);
  }
  NoteResolved(look);
  for (auto& [other, space] : spaces_) {
    space.seen = Union(space.seen, resolved_);  // as in Settle()
  }
  DropResolved();
  return Recharge(before, intents);
}

void ManagedTracker::NoteResolved(Look look) {
  AddressRanges more;
  for (const Mapping* mapping : Waiting()) {
    if (mapping->resolved) {
      resolved_at_ = clock_;
      if (!mapping->WasOver(look)) {
        more.push_back(mapping->claim.range);
      }
    }
  }
  resolved_ = Union(resolved_, more);
}

void ManagedTracker::DropResolved() {
  for (const Mapping* mapping : Waiting()) {
    if (mapping->resolved) {
      Release(*mapping);
    }
  }
  std::erase_if(over_, [](const Mapping& mapping) { return mapping.resolved; });
  std::erase_if(now_, [](const auto& entry) { return entry.second.resolved; });
}

// Drops address spaces that were looked at, have nothing and wait for nothing.
void ManagedTracker::DropIdle(const SeenByWitness& seen) {
  std::erase_if(spaces_, [&](const auto& entry) {
    const bool idle = seen.contains(entry.first) && IsIdle(entry.first, entry.second);
    if (idle) {
      released_.push_back(entry.first);
    }
    return idle;
  });
}

bool ManagedTracker::IsIdle(Witness witness, const Space& space) const {
  const auto waiting = Waiting();
  return space.counted.empty() && space.doubted.empty() &&
         std::ranges::none_of(waiting, [&](const Mapping* one) {
           return one->claim.witness == witness || space.programs.contains(one->claim.program);
         });
}

void ManagedTracker::Release(const Mapping& mapping) {
  if (!spaces_.contains(mapping.claim.witness)) {
    released_.push_back(mapping.claim.witness);
  }
}

std::vector<ManagedTracker::Witness> ManagedTracker::TakeReleased() {
  std::ranges::sort(released_);
  released_.erase(std::unique(released_.begin(), released_.end()), released_.end());
  return std::exchange(released_, {});
}

std::map<ManagedTracker::Witness, ledger::ProcessKey> ManagedTracker::Witnesses() const {
  std::map<Witness, ledger::ProcessKey> all;
  for (const auto& [witness, space] : spaces_) {
    all[witness] = space.process;
  }
  for (const Mapping* mapping : Waiting()) {
    all.try_emplace(mapping->claim.witness, mapping->claim.process);
  }
  return all;
}

std::vector<const ManagedTracker::Mapping*> ManagedTracker::Waiting() const {
  std::vector<const Mapping*> all;
  all.reserve(over_.size() + now_.size());
  for (const Mapping& mapping : over_) {
    all.push_back(&mapping);
  }
  for (const auto& [thread, mapping] : now_) {
    all.push_back(&mapping);
  }
  return all;
}

std::vector<ManagedTracker::Mapping*> ManagedTracker::Waiting() {
  std::vector<Mapping*> all;
  all.reserve(over_.size() + now_.size());
  for (Mapping& mapping : over_) {
    all.push_back(&mapping);
  }
  for (auto& [thread, mapping] : now_) {
    all.push_back(&mapping);
  }
  return all;
}

ManagedTracker::Processes ManagedTracker::Payers() const {
  Processes all;
  for (const auto& [witness, space] : spaces_) {
    all.insert(space.process);
  }
  for (const Mapping* mapping : Waiting()) {
    all.insert(mapping->claim.process);
  }
  return all;
}

// Makes the charges follow the mappings. Returns false if a mapping made on purpose does not fit.
bool ManagedTracker::Recharge(const Processes& before, const Processes& intents) {
  Processes all = before;
  all.merge(Payers());
  bool fits = true;
  for (const ledger::ProcessKey process : all) {
    const std::uint64_t bytes = BytesOf(process);
    if (intents.contains(process)) {
      fits = !TryCharge(process, bytes) && fits;
    }
    for (ledger::Gpu gpu = 0; gpu < gpus_; ++gpu) {
      ledger_.ForceExtra(KeyOf(process), gpu, bytes);
    }
  }
  return fits;
}

void ManagedTracker::Resume() {
  for (ledger::Gpu gpu = 0; gpu < gpus_; ++gpu) {
    for (const ledger::ProcessKey process : Payers()) {
      ledger_.ForceExtra(KeyOf(process), gpu, BytesOf(process));
    }
  }
}

// Saturates: a tenant can claim more than 64 bits hold while there is no GPU to refuse it.
std::uint64_t ManagedTracker::BytesOf(ledger::ProcessKey process) const {
  std::uint64_t bytes = 0;
  const auto add = [&](const AddressRanges& ranges) {
    const std::uint64_t more = ManagedBytes(ranges);
    bytes += std::min(more, std::numeric_limits<std::uint64_t>::max() - bytes);
  };
  for (const auto& [witness, space] : spaces_) {
    if (space.process == process) {
      // Tables of what is contested may be those of another address space.
      add(Without(space.counted, space.contested));
      add(space.contested);
      std::ranges::for_each(space.doubted, add);
    }
  }
  for (const Mapping* mapping : Waiting()) {
    if (mapping->claim.process == process && !mapping->watched) {
      add({mapping->claim.range});
    }
  }
  return bytes;
}

// Charges all GPUs or none. Returns the GPU that has no room.
std::optional<ledger::Gpu> ManagedTracker::TryCharge(ledger::ProcessKey process,
                                                     std::uint64_t bytes) {
  std::map<ledger::Gpu, std::uint64_t> before;
  for (ledger::Gpu gpu = 0; gpu < gpus_; ++gpu) {
    const std::uint64_t old = ledger_.Extra(KeyOf(process), gpu);
    if (!ledger_.SetExtra(KeyOf(process), gpu, bytes).ok()) {
      for (const auto& [charged, value] : before) {
        ledger_.ForceExtra(KeyOf(process), charged, value);
      }
      return gpu;
    }
    before[gpu] = old;
  }
  return std::nullopt;
}

}  // namespace cgpu::boundary
