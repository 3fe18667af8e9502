#include "shim/managed_memory.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "os/address_space.h"

namespace cgpu::shim {
namespace {

using boundary::ManagedTracker;

// Most pieces of managed memory, in all address spaces together, before the container is ended. The
// kernel lets a process have 65,530 mappings at first (Linux,
// Documentation/admin-guide/sysctl/vm.rst, max_map_count), and no program comes near that with
// managed ones.
constexpr std::size_t kMostPieces = 262'144;

boundary::AddressRanges RangesOf(const std::vector<os::MappedRange>& mapped) {
  boundary::AddressRanges ranges;
  ranges.reserve(mapped.size());
  for (const os::MappedRange& range : mapped) {
    ranges.push_back({range.start, range.end});
  }
  return boundary::Ordered(std::move(ranges));
}

}  // namespace

ManagedMemory::ManagedMemory(int proc, Accounting& accounting, RangeQuestions& questions,
                             ContainerProcesses& processes, const Hurry& hurry,
                             std::function<void()> make_room)
    : proc_(proc),
      accounting_(accounting),
      questions_(questions),
      processes_(processes),
      hurry_(hurry),
      make_room_(std::move(make_room)),
      attention_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Witnesses::Number ManagedMemory::OpenWitness(const os::Caller& caller) {
  const auto add = [&]() -> Witnesses::Number {
    auto space = os::OpenAddressSpace(proc_, caller.process->tgid, caller.tid);
    return space.ok() ? witnesses_.Add(std::move(*space)) : 0;
  };
  const Witnesses::Number witness = add();
  if (witness != 0) {
    return witness;
  }
  (void)Settle();
  return add();
}

bool ManagedMemory::Begin(boundary::MmapKind kind, const ManagedTracker::Claim& claim,
                          pid_t thread) {
  const auto ask = [&](const auto& question) {
    const MutexLock lock(accounting_.mutex);
    return question(accounting_.boundary.managed());
  };
  if (ask([&](const ManagedTracker& tracker) { return tracker.Meets(claim); })) {
    (void)Settle(true);
  }
  const bool suspect = kind == boundary::MmapKind::kSuspect;
  const bool known =
      ask([&](const ManagedTracker& tracker) { return tracker.IsKnown(claim.program); });
  const bool counted = suspect && ask([&](const ManagedTracker& tracker) {
                         return !tracker.Counted(claim).empty();
                       });
  const auto look = ask([](ManagedTracker& tracker) { return tracker.BeginLook(); });
  boundary::AddressRanges shown;
  if (!known || counted) {
    const auto mapped = os::ReadMappings(*witnesses_.Find(claim.witness));
    if (!mapped) {
      return false;
    }
    shown = RangesOf(*mapped);
  }
  mapping_.store(true, std::memory_order_relaxed);
  if (!suspect && !Charge(claim, thread)) {
    return false;
  }
  const auto no_questions = questions_.KeepOut();
  const MutexLock lock(accounting_.mutex);
  if (suspect) {
    // Counted again: in the meantime it may have been unmapped, and that settled.
    ManagedTracker& tracker = accounting_.boundary.managed();
    tracker.Watch(thread, claim, boundary::Intersection(tracker.Counted(claim), shown));
  }
  if (!known) {
    accounting_.boundary.managed().Know(look, claim, std::move(shown));
  }
  return true;
}

bool ManagedMemory::Charge(const ManagedTracker::Claim& claim, pid_t thread) {
  const auto charge = [&] {
    const auto no_questions = questions_.KeepOut();
    const MutexLock lock(accounting_.mutex);
    mapping_.store(true, std::memory_order_relaxed);
    return accounting_.boundary.managed().Charge(thread, claim);
  };
  auto full = charge();
  if (full) {
    make_room_();
    full = charge();
  }
  if (!full) {
    return true;
  }
  accounting_.CountRefused(boundary::Reason::kMemoryLimit, "managed memory over the limit");
  const MutexLock lock(accounting_.mutex);
  accounting_.CountDenial(*full);
  return false;
}

void ManagedMemory::NoteThread(pid_t thread) {
  if (!mapping_.load(std::memory_order_relaxed)) {
    return;
  }
  std::size_t unsettled = 0;
  {
    const MutexLock lock(accounting_.mutex);
    accounting_.boundary.managed().Over(thread);
    unsettled = accounting_.boundary.managed().Unsettled();
    mapping_.store(!accounting_.boundary.managed().Unfinished().empty(), std::memory_order_relaxed);
  }
  constexpr std::size_t kManyUnsettled = 32;
  if (unsettled >= kManyUnsettled) {
    if (settle_mutex_.TryLock()) {
      SettleAll(true);
      settle_mutex_.Unlock();
    }
  }
}

bool ManagedMemory::Settle(bool at_leisure) {
  const MutexLock settling(settle_mutex_);
  return SettleAll(at_leisure);
}

bool ManagedMemory::SettleAll(bool at_leisure) {
  std::vector<ManagedTracker::Thread> threads;
  {
    const MutexLock lock(accounting_.mutex);
    DropReleased();
    if (accounting_.boundary.managed().Empty()) {
      return false;
    }
    threads = accounting_.boundary.managed().Unfinished();
  }
  for (const auto thread : threads) {
    if (os::HasLeftCalls(proc_, thread, {SYS_mmap, SYS_mremap})) {
      const MutexLock lock(accounting_.mutex);
      accounting_.boundary.managed().Over(thread);
    }
  }
  ManagedTracker::Look look = 0;
  std::vector<ManagedTracker::Witness> asked;
  {
    const MutexLock lock(accounting_.mutex);
    look = accounting_.boundary.managed().BeginLook();
    asked = accounting_.boundary.managed().Spaces();
  }
  auto seen = Ask(asked, at_leisure);
  bool fits = true;
  {
    const MutexLock lock(accounting_.mutex);
    fits = accounting_.boundary.managed().Settle(look, seen);
    asked = accounting_.boundary.managed().Unplaced(look);
  }
  seen = Ask(asked, at_leisure);
  {
    const MutexLock lock(accounting_.mutex);
    for (const auto& [witness, said] : seen) {
      fits = accounting_.boundary.managed().Place(look, witness, said) && fits;
    }
  }
  if (!hurry_.CutsShort(at_leisure)) {
    questions_.SettleDoubts();
  }
  {
    const MutexLock lock(accounting_.mutex);
    DropReleased();
  }
  if (!fits) {
    // A watched mapping has become managed memory beyond the limit. Only a tenant that swaps
    // descriptors while the kernel looks gets here, and only the end of its processes takes the
    // mapping back. Processes that are unknown here have no shim from now on; the supervisor ends
    // them.
    processes_.Kill();
    std::_Exit(1);
  }
  return true;
}

void ManagedMemory::DropReleased() {
  witnesses_.Drop(accounting_.boundary.managed().TakeReleased());
}

std::map<ManagedTracker::Witness, ManagedTracker::Seen> ManagedMemory::Ask(
    const std::vector<ManagedTracker::Witness>& witnesses, bool at_leisure) {
  std::map<ManagedTracker::Witness, Seen> seen;
  std::size_t pieces = 0;
  for (const ManagedTracker::Witness witness : witnesses) {
    if (hurry_.CutsShort(at_leisure)) {
      break;
    }
    Seen said;
    const auto space = witnesses_.Find(witness);
    const auto mapped = space == nullptr ? std::nullopt : os::ReadMappings(*space);
    if (mapped) {
      pieces += mapped->size();
      if (pieces > kMostPieces) {
        processes_.Condemn(
            "managed memory in more pieces than any program's: the container is ended");
        break;
      }
      said.shown = RangesOf(*mapped);
    } else {
      const bool used = space != nullptr && os::IsUsed(*space);
      said.state = used ? Seen::State::kHidden : Seen::State::kGone;
    }
    seen[witness] = std::move(said);
  }
  return seen;
}

void ManagedMemory::CallForLook() const {
  (void)eventfd_write(attention_.get(), 1);
}

void ManagedMemory::ResetAttention() const {
  eventfd_t count = 0;
  (void)eventfd_read(attention_.get(), &count);
}

void ManagedMemory::LookForOthers() {
  using Found = boundary::RangeSearch::Found;
  constexpr int kCertain = 4;
  const auto enough = [this] { return hurry_.on(); };
  Found found = questions_.FindUnknown(enough);
  if (found == Found::kUnknown) {
    // It may be the container's own: a mapping that nobody has looked for yet, or what is left of a
    // process that has ended.
    (void)Settle(true);
    questions_.CleanUpMappings();
    found = questions_.FindUnknown(enough);
    others_ += found == Found::kUnknown ? 2 : (found == Found::kUnfinished ? 1 : 0);
  }
  if (found == Found::kNothing) {
    others_ = std::max(others_ - 1, 0);
  }
  if (others_ >= kCertain) {
    processes_.Condemn(
        "managed memory of a process outside of the container: the container is ended");
  }
}

bool ManagedMemory::Watching() {
  const MutexLock lock(accounting_.mutex);
  return accounting_.boundary.managed().Watches() || accounting_.boundary.managed().HasDoubts();
}

void ManagedMemory::Save(ServerState& state) const {
  for (const auto& [number, space] : witnesses_.All()) {
    state.witnesses.push_back({number, space->mem.get(), space->maps.get()});
  }
  state.mapping = mapping_.load();
}

// Takes witnesses over. A predecessor that knew only processes has none: its charges to a process
// are from now on charges to the address space that the process has now.
void ManagedMemory::TakeOver(const ServerState& state, const ProcessesBySerial& processes) {
  for (const WitnessState& one : state.witnesses) {
    os::AddressSpace space;
    space.mem.reset(one.mem);
    space.maps.reset(one.maps);
    witnesses_.Adopt(one.number, std::move(space));
  }
  std::map<boundary::ManagedTracker::Witness, ledger::ProcessKey> used;
  {
    const MutexLock lock(accounting_.mutex);
    used = accounting_.boundary.managed().Witnesses();
  }
  for (const auto& [witness, serial] : used) {
    witnesses_.StartAt(witness + 1);
    const auto process = processes.find(serial);
    if (witnesses_.Find(witness) != nullptr || process == processes.end()) {
      continue;
    }
    const pid_t number = process->second->tgid;
    auto space = os::OpenAddressSpace(proc_, number, number);
    if (space.ok() && !os::HasExited(*process->second)) {
      witnesses_.Adopt(witness, std::move(*space));
    }
  }
  mapping_.store(state.mapping);
}

}  // namespace cgpu::shim
