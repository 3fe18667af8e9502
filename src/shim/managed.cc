// The part of the server for managed memory: mmaps, and their results.
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <shared_mutex>
#include <utility>

#include "shim/server.h"

namespace cgpu::shim {
namespace {

using boundary::ManagedBook;
using Seen = ManagedBook::Seen;

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

// Handles an mmap that could make managed memory, or an mremap that could bring it back to its
// place. All arguments are registers, so the kernel executes what is judged here, except for the
// file that the descriptor leads to.
void Server::SeeMapping(const Source& source, const os::Notification& notification) {
  pool_.ListenSoon();
  const auto& args = notification.args;
  const auto refuse = [&] {
    if (source.listener.Valid(notification.id)) {
      (void)pool_.Answer(source, notification.id, ENOMEM);
    }
  };
  const auto caller = FindMapper(notification.tid);
  if (caller == nullptr) {
    return refuse();
  }
  bool uvm_file = false;
  ManagedBook::Claim claim;
  auto kind = boundary::MmapKind::kHarmless;
  if (notification.nr == SYS_mremap) {
    kind = boundary::JudgeMremap(args[4], args[2], &claim.range);
  } else {
    if (const auto known = files_.LookAt(*caller, static_cast<int>(args[4])); known.ok()) {
      uvm_file = *known && (*known)->kind == boundary::FileKind::kUvm;
    }
    kind =
        boundary::JudgeMmap({args[0], args[1], args[2], args[3], args[5]}, uvm_file, &claim.range);
  }
  if (kind == boundary::MmapKind::kHarmless) {
    (void)source.listener.Continue(notification.id);
    return;
  }
  claim.process = caller->process->serial;
  claim.program = caller->process->program;
  claim.witness = OpenWitness(*caller);
  if (claim.witness == 0) {
    return refuse();
  }
  // The address space was opened by a number. If the thread still waits in its call, the mapping
  // comes to lie in this address space: no other thread can execute a program without ending this
  // one.
  const bool valid = source.listener.Valid(notification.id);
  const bool admitted = valid && BeginMapping(kind, claim, notification.tid);
  if (!admitted) {
    witnesses_.Drop({claim.witness});
  }
  if (valid && uvm_file) {
    recorder_.Mapping(*caller->process, args[1], admitted ? 0 : ENOMEM);
  }
  if (!admitted) {
    return refuse();
  }
  (void)source.listener.Continue(notification.id);
  if (kind == boundary::MmapKind::kSuspect && uvm_files_.size() != 0) {
    CallForAttention();
  }
}

// Returns null if the thread is gone, or cannot be looked at. A cached entry for the thread's
// number may be of another thread that has ended, or of a program that its process no longer
// executes.
std::shared_ptr<const os::Caller> Server::FindMapper(pid_t thread) {
  auto caller = callers_->Find(thread, false);
  char byte = 0;
  constexpr std::uint64_t kAnywhere = 4096;
  if (caller.ok() && (!(*caller)->Alive() || (*caller)->Read(kAnywhere, &byte, 1) == 0)) {
    caller = callers_->Find(thread, true);
  }
  return caller.ok() ? *caller : nullptr;
}

// Returns 0 if there is no room, or the thread is gone.
Witnesses::Number Server::OpenWitness(const os::Caller& caller) {
  const auto add = [&]() -> Witnesses::Number {
    auto space = os::OpenAddressSpace(callers_->proc_fd(), caller.process->tgid, caller.tid);
    return space.ok() ? witnesses_.Add(std::move(*space)) : 0;
  };
  const Witnesses::Number witness = add();
  if (witness != 0) {
    return witness;
  }
  (void)SettleManaged();
  return add();
}

// Begins a mapping while its call is held. Returns false if it does not fit.
bool Server::BeginMapping(boundary::MmapKind kind, const ManagedBook::Claim& claim, pid_t thread) {
  const auto ask = [&](const auto& question) {
    const MutexLock lock(accounting_.mutex);
    return question(accounting_.boundary.managed());
  };
  if (ask([&](const ManagedBook& book) { return book.Meets(claim); })) {
    (void)SettleManaged(true);
  }
  const bool suspect = kind == boundary::MmapKind::kSuspect;
  const bool known = ask([&](const ManagedBook& book) { return book.IsKnown(claim.program); });
  const bool counted =
      suspect && ask([&](const ManagedBook& book) { return !book.Counted(claim).empty(); });
  const auto look = ask([](ManagedBook& book) { return book.BeginLook(); });
  boundary::AddressRanges shown;
  if (const auto inodes = uvm_files_.Inodes(); !inodes.empty() && (!known || counted)) {
    const auto mapped = os::ReadMappings(*witnesses_.Find(claim.witness), inodes);
    if (!mapped) {
      return false;
    }
    shown = RangesOf(*mapped);
  }
  mapping_.store(true, std::memory_order_relaxed);
  if (!suspect && !ChargeMapping(claim, thread)) {
    return false;
  }
  const std::shared_lock no_questions(ranges_mutex_);
  const MutexLock lock(accounting_.mutex);
  if (suspect) {
    // Counted again: in the meantime it may have been unmapped, and that settled.
    ManagedBook& book = accounting_.boundary.managed();
    book.Watch(thread, claim, boundary::Intersection(book.Counted(claim), shown));
  }
  if (!known) {
    accounting_.boundary.managed().Know(look, claim, std::move(shown));
  }
  return true;
}

bool Server::ChargeMapping(const ManagedBook::Claim& claim, pid_t thread) {
  const auto charge = [&] {
    const std::shared_lock no_questions(ranges_mutex_);
    const MutexLock lock(accounting_.mutex);
    mapping_.store(true, std::memory_order_relaxed);
    return accounting_.boundary.managed().Charge(thread, claim);
  };
  auto full = charge();
  if (full) {
    ReconcileForCall();
    full = charge();
  }
  if (!full) {
    return true;
  }
  accounting_.CountRefused("managed memory over the limit");
  const MutexLock lock(accounting_.mutex);
  accounting_.ledger.CountDenial(*full);
  return false;
}

// Notes that the thread makes another call, so the mapping that it was let into is over.
void Server::NoteThread(pid_t thread) {
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

// Settles. Returns true if something may have been given back. At leisure it stops when others are
// in a hurry, and does the rest later: no tenant is refused anything for it.
bool Server::SettleManaged(bool at_leisure) {
  const MutexLock settling(settle_mutex_);
  return SettleAll(at_leisure);
}

bool Server::SettleAll(bool at_leisure) {
  std::vector<ManagedBook::Thread> threads;
  {
    const MutexLock lock(accounting_.mutex);
    DropReleased();
    if (accounting_.boundary.managed().Empty()) {
      return false;
    }
    threads = accounting_.boundary.managed().Unfinished();
  }
  for (const auto thread : threads) {
    if (os::HasLeftCalls(callers_->proc_fd(), thread, {SYS_mmap, SYS_mremap})) {
      const MutexLock lock(accounting_.mutex);
      accounting_.boundary.managed().Over(thread);
    }
  }
  ManagedBook::Look look = 0;
  std::vector<ManagedBook::Witness> asked;
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
    SettleDoubts();
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

void Server::DropReleased() {
  witnesses_.Drop(accounting_.boundary.managed().TakeReleased());
}

std::map<ManagedBook::Witness, Seen> Server::Ask(const std::vector<ManagedBook::Witness>& witnesses,
                                                 bool at_leisure) {
  const os::InodeSet inodes = uvm_files_.Inodes();
  std::map<ManagedBook::Witness, Seen> seen;
  std::size_t pieces = 0;
  for (const ManagedBook::Witness witness : witnesses) {
    if (hurry_.CutsShort(at_leisure)) {
      break;
    }
    Seen said;
    const auto space = witnesses_.Find(witness);
    const auto mapped = space == nullptr ? std::nullopt : os::ReadMappings(*space, inodes);
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

}  // namespace cgpu::shim
