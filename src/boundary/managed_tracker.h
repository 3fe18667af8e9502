// Tracks the managed memory of a container. A mapping is charged before it is made, and settled by
// what /proc shows afterwards.
//
// The tenant's own thread makes the mapping after we let it through, and nothing reports when it is
// done. It is done when the thread makes another call, or when the mapping is seen. Until then its
// charge stays. Memory is charged on every granted GPU, since it may come to lie on any: which ones
// its UVM space has registered is not known, as the mapping may be of a file that another container
// has sent.
//
// A managed range lives in the address space that mapped it, even after the process or thread that
// mapped it is gone: another process may share that address space (CLONE_VM), and a process may
// leave it by executing another program. So each mapping has a *witness*: a pair of descriptors
// that was opened while its call was held and keeps meaning that address space
// (os/address_space.h). Here it is an opaque number. A witness shows its address space exactly. A
// charge is *doubted* when the mapping's own witness, or another of the same address space, does
// not show the mapping although its call is over. Nothing else makes it so, except that no process
// uses the address space any more.
//
// Even then the kernel has yet to have UVM take the mapping down, which takes long for much memory,
// and a tenant can delay that. So UVM is asked how many of its files have something at these
// addresses, and doubted charges are given back only while at least as many remain. The remaining
// charges may belong to address spaces that show those addresses by other means, as after a fork,
// or have unmapped them since they were looked at. Such a charge is *contested*: it may be all that
// is charged for memory of the address space that is gone. So when its own address space stops
// showing those addresses, or maps them anew, it becomes a doubted charge, and what is mapped anew
// is charged besides it.
//
// A witness for each mapping would take two descriptors a mapping. So witnesses of one address
// space are joined. The danger is to join those of two: one address space would then be forgotten.
// Neither the process, nor addresses, nor what two witnesses show tells whether they are of the
// same address space: a tenant can make twins by a fork, or by executing one program twice with its
// addresses not randomised. The mapping itself does tell. Say a known address space did not show
// some address at its last look and does now. Then a call within that very address space has mapped
// it since, or moved it back there. For forking fills new address spaces only, and a mapping that
// was moved elsewhere does not lie where its offset says and is not shown here. Every such call was
// held before it was made, and waits here until it is resolved. So if exactly one waiting call
// covers that address, it is that call, and its witness is of that address space. If several do, or
// the address was shown before, nothing follows: the mapping becomes an address space of its own
// here. That one may be known already. Its memory is counted in both only where it was mapped
// twice; a later call that appears in both joins them.
//
// A mapping that has not been seen is charged by itself, in whole blocks, even if it seems to lie
// in memory that is charged already: it is not known yet in which address space it will lie.
//
// A witness of a process that is gone, while its address space is used, says only that it is used.
// Then everything charged to it stays charged until the witness says that the address space is
// unused, or until another witness that is joined with it shows the address space again.
//
// Pure; thread-compatible. Looks take time and are made without a lock: BeginLook() before,
// Settle() after, and then the same for the witnesses that Unplaced() names. One settlement at a
// time.
#ifndef CGPU_BOUNDARY_MANAGED_TRACKER_H_
#define CGPU_BOUNDARY_MANAGED_TRACKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "boundary/managed.h"
#include "boundary/range_search.h"
#include "ledger/ledger.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::boundary {

class ManagedTracker {
 public:
  using Thread = int;
  using Look = std::uint64_t;
  using Witness = std::uint64_t;  // never 0, never used again

  // A mapping that a thread is about to make.
  struct Claim {
    Witness witness = 0;             // its own
    ledger::ProcessKey process = 0;  // the payer, as others see it
    // The program of the process. A new one, where that is known, has an address space of its own.
    // No charge is given back because of it: it only says when Know() is worthwhile.
    std::uint64_t program = 0;
    AddressRange range;
  };

  // The answer of a witness.
  struct Seen {
    enum class State : std::uint8_t {
      kShown,
      kHidden,  // it is used, but no process can be asked for its mappings
      kGone,    // no process uses it
    };
    State state = State::kShown;
    AddressRanges shown;  // in order: mappings of UVM files that lie where their offset says
  };

  // `ledger` outlives this. `gpus`: the number of those that are granted.
  ManagedTracker(ledger::Ledger& ledger, std::size_t gpus) : ledger_(ledger), gpus_(gpus) {}

  // Charges the mapping. Returns a GPU that it does not fit on; then nothing is charged and the
  // witness stays the caller's.
  std::optional<ledger::Gpu> Charge(Thread thread, const Claim& claim);
  // Watches a mapping that becomes managed memory only on purpose: not charged, but looked for.
  // `before`: what its address space shows of what Counted() names, if anything.
  void Watch(Thread thread, const Claim& claim, AddressRanges before);
  // Notes that the thread has come out of its last mapping.
  void Over(Thread thread);
  // Returns true if a mapping is watched and not known to be over. A look must follow whenever it
  // is made.
  [[nodiscard]] bool Watches() const;
  // Returns the number of mappings that are over and wait for a look.
  [[nodiscard]] std::size_t Unsettled() const { return over_.size(); }

  // IsKnown() returns false if it is worthwhile to Know() what an address space shows before this
  // program's claim is let go. `shown`: what its witness showed while its call was held, after
  // `look` had begun. Call Know() after Charge() or Watch(). It has no effect if something was
  // settled since.
  [[nodiscard]] bool IsKnown(std::uint64_t program) const;
  void Know(Look look, const Claim& claim, AddressRanges shown);
  // Returns true if it is worthwhile to settle first, because something prevents recognising it.
  [[nodiscard]] bool Meets(const Claim& claim) const;
  // Returns the part of its range that is counted for its process.
  [[nodiscard]] AddressRanges Counted(const Claim& claim) const;

  // Returns the addresses that are charged, in order: cut wherever the number of charges changes.
  [[nodiscard]] std::vector<ChargedRange> Charges() const;
  // Returns true if nothing is charged or watched.
  [[nodiscard]] bool Empty() const { return spaces_.empty() && now_.empty() && over_.empty(); }
  // Returns the threads that are not known to have come out of a mapping.
  [[nodiscard]] std::vector<Thread> Unfinished() const;

  [[nodiscard]] Look BeginLook() { return ++clock_; }
  // Returns the witnesses of address spaces. Their answers after the look began go to Settle(), all
  // at once. A witness that is left out stays as it is.
  [[nodiscard]] std::vector<Witness> Spaces() const;
  // Settles. Returns false if a watched mapping has become managed memory and does not fit. It is
  // charged all the same; only a tenant that swaps descriptors gets here.
  [[nodiscard]] bool Settle(Look look, std::map<Witness, Seen> seen);
  // Returns the witnesses of mappings that Settle() did not recognise. The answer of each goes to
  // Place().
  [[nodiscard]] std::vector<Witness> Unplaced(Look look) const;
  [[nodiscard]] bool Place(Look look, Witness witness, const Seen& seen);

  // A range that is given back if UVM has nothing there: the number of address spaces that are
  // charged for it, and how many of these charges are doubted. It has no addresses that a thread is
  // about to map.
  struct Doubt {
    AddressRange range;
    std::size_t charged = 0;
    std::size_t doubted = 0;
  };
  [[nodiscard]] bool HasDoubts() const;
  [[nodiscard]] std::vector<Doubt> Doubts() const;
  // Resolves doubts, in the settlement that raised them. `holders`: the number of nvidia-uvm's
  // files that have something in each range.
  void Resolve(const std::vector<std::pair<Doubt, std::size_t>>& holders);
  // Returns the witnesses that are not needed any more. Names each once.
  [[nodiscard]] std::vector<Witness> TakeReleased();

  // Hand-over (state.cc): records within the open one. Resume() follows, and charges what they say.
  void Save(StateWriter& writer) const;
  void Load(StateReader& reader);
  void Resume();
  // Returns all witnesses in use, with the processes that they were opened for.
  [[nodiscard]] std::map<Witness, ledger::ProcessKey> Witnesses() const;

 private:
  struct Mapping {
    Claim claim;
    bool watched = false;  // not charged
    AddressRanges before;
    std::uint64_t over_at = 0;
    bool over = false;
    bool resolved = false;  // within a settlement
    [[nodiscard]] bool WasOver(Look look) const { return over && over_at < look; }
  };
  // Is charged for `counted`, and once more for each element of `doubted`.
  struct Space {
    ledger::ProcessKey process = 0;
    std::set<std::uint64_t> programs;
    AddressRanges counted;    // managed memory, by the last look
    AddressRanges seen;       // at the last look, or more
    AddressRanges contested;  // part of `counted`
    std::vector<AddressRanges> doubted;
    bool gone = false;  // nothing is counted
  };
  using Processes = std::set<ledger::ProcessKey>;
  using SeenByWitness = std::map<Witness, Seen>;

  [[nodiscard]] std::vector<const Mapping*> Waiting() const;
  [[nodiscard]] std::vector<Mapping*> Waiting();
  [[nodiscard]] Processes Payers() const;
  [[nodiscard]] std::uint64_t BytesOf(ledger::ProcessKey process) const;
  std::optional<ledger::Gpu> TryCharge(ledger::ProcessKey process, std::uint64_t bytes);
  bool Recharge(const Processes& before, const Processes& intents);
  void Release(const Mapping& mapping);
  void DoubtGone(const SeenByWitness& seen);
  void DoubtAll(Witness witness);
  static void AddDoubted(Space& space, AddressRanges ranges);
  static void AddCounted(Space& space, const AddressRanges& ranges);
  static void CountShown(Space& space, const AddressRanges& shown);
  static void Merge(Space& space, Space& other);
  void Recognise(SeenByWitness& seen, Processes& intents);
  void JoinInto(Witness kept, Witness other, SeenByWitness& seen);
  void SettleOwn(Look look, const SeenByWitness& seen, Processes& intents);
  static void Count(Space& space, Mapping& mapping, const AddressRanges& part, Processes& intents);
  [[nodiscard]] static AddressRanges PartOf(Mapping& mapping, const Seen& seen);
  void DropResolved();
  void NoteResolved(Look look);
  void DropIdle(const SeenByWitness& seen);
  [[nodiscard]] bool IsIdle(Witness witness, const Space& space) const;
  void LoadSpace(StateReader& reader, bool of_process);
  void LoadRange(StateReader& reader, std::uint64_t tag);
  [[nodiscard]] Mapping LoadMapping(StateReader& reader, bool over, Thread* thread) const;

  ledger::Ledger& ledger_;
  const std::size_t gpus_;
  std::map<Witness, Space> spaces_;
  std::map<Thread, Mapping> now_;  // the last mapping of each thread
  std::vector<Mapping> over_;      // earlier mappings that no look has settled yet
  std::vector<Witness> released_;
  // Mappings that this settlement, or the last, resolved although they were not known to be over.
  AddressRanges resolved_;
  Look resolved_at_ = 0;
  Look clock_ = 0;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_MANAGED_TRACKER_H_
