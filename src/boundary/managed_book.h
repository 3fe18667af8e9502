// The managed memory of a container: charged before the mapping is made, settled by what /proc
// shows afterwards.
//
// A mapping is made by the tenant's own thread after we have let it through, and nothing tells when
// it is done; that the thread has made another call does, or that the mapping is seen. Until then
// its charge stays. Memory is charged on every card that a UVM space of the container has
// registered, since it may come to lie on any.
//
// A managed range lives in the address space that mapped it, whatever becomes of the process or
// thread that did: another process may share that address space (CLONE_VM), and a process may leave
// it by executing another program. So each mapping has a *witness*: a pair of descriptors that was
// opened while its call was held and keeps meaning that address space (kernel/address_space.h).
// Here it is an opaque number. What a witness shows is exact. A charge is given back when the
// mapping's own witness, or that of the same address space, does not show it although its call is
// over; by nothing else, but for an address space that nobody uses any more.
//
// The kernel has yet to unmap what is in such a one, and a tenant can keep it from that. Its
// charges are *doubted*: UVM is asked how many of its files have something at these addresses, and
// they are given back only where at least as many charges remain. The rest may then be of address
// spaces that show those addresses by other means, as after a fork, so what they show no more of
// them is doubted too, until UVM has said that nothing is left there.
//
// For each mapping to keep its witness would take two descriptors a mapping. So witnesses of one
// address space are joined, and the whole danger lies in joining those of two: one of them would
// then be forgotten. Neither the process, nor addresses, nor what two of them show tells whether
// they are the same (a tenant can make twins: fork, or one program executed twice with its
// addresses not randomised). What does tell is the mapping itself. Say a known address space did
// not show some address at its last look and does now. Then a call within that very address space
// has mapped it since, or moved it back there: forking fills new address spaces only, and what was
// moved elsewhere does not lie where its offset says and is not shown here. Every such call was
// held before it was made, and waits here until it is resolved. So if exactly one waiting call
// covers that address, it is the one, and its witness is of that address space. If several do, or
// the address was shown before, nothing follows: the mapping becomes an address space of its own
// here. It may then be one that is known already, whose memory is counted in both only where it was
// mapped twice; a later call that appears in both joins them.
//
// A mapping that has not been seen is charged by itself, in whole blocks, even if it seems to lie
// in memory that is charged already: in which address space it comes to lie is not known yet.
//
// Witnesses of a process that is gone while its address space is used say only that it is; then all
// that it had stays charged until they say that it is not, or the address space is seen again by
// another's witness that is joined with it.
//
// Pure; thread-compatible. Looks take time and are made without a lock: BeginLook() before,
// Settle() after, and then the same for what Unplaced() names. One settlement at a time.
#ifndef CGPU_BOUNDARY_MANAGED_BOOK_H_
#define CGPU_BOUNDARY_MANAGED_BOOK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "boundary/managed.h"
#include "ledger/ledger.h"

namespace cgpu {
class StateReader;
class StateWriter;
}  // namespace cgpu

namespace cgpu::boundary {

class ManagedBook {
 public:
  using Thread = int;
  using Look = std::uint64_t;
  using Witness = std::uint64_t;  // never 0, never used again

  // A mapping that a thread is about to make.
  struct Claim {
    Witness witness = 0;             // its own
    ledger::ProcessKey process = 0;  // who pays for it, as others see it
    // Which program of the process; a new one, where that is known, has an address space of its
    // own. Nothing is given back on its word: it says when Know() is worth while.
    std::uint64_t program = 0;
    AddressRange range;
  };

  // The answer of a witness.
  struct Seen {
    enum class State : std::uint8_t {
      kShown,
      kHidden,  // it is used, but nobody can be asked for its mappings
      kGone,    // nobody uses it
    };
    State state = State::kShown;
    AddressRanges shown;  // in order: mappings of UVM files that lie where their offset says
  };

  // `ledger` outlives this.
  explicit ManagedBook(ledger::Ledger& ledger) : ledger_(ledger) {}

  // Returns a card that it does not fit on; then nothing is charged and the witness is not ours.
  std::optional<ledger::Card> Charge(Thread thread, const Claim& claim);
  // One that can become managed memory only by intent: not charged, but looked for. `before`: what
  // its address space shows of what Counted() names, if anything.
  void Watch(Thread thread, const Claim& claim, AddressRanges before);
  // The thread has come out of its last mapping. Nothing comes of one while no file of nvidia-uvm
  // was ever about to be initialised.
  void Over(Thread thread);
  // Before the driver is asked to initialise the first. What ends a space here does not end it in
  // the driver, which has it until the last close.
  void ExpectSpaces() { any_space_ = true; }
  // One is watched and not known to be over: whenever it is made, a look must follow.
  [[nodiscard]] bool Watches() const;
  // Mappings that are over and wait for a look.
  [[nodiscard]] std::size_t Unsettled() const { return over_.size(); }

  // False: it is worth while to Know() what an address space shows before this program's claim is
  // let go. `shown`: what its witness showed while its call was held, after `look` had begun. After
  // Charge() or Watch(). Has no effect if something was settled since.
  [[nodiscard]] bool IsKnown(std::uint64_t program) const;
  void Know(Look look, const Claim& claim, AddressRanges shown);
  // Is it worth while to settle first? Something is in the way of recognising it.
  [[nodiscard]] bool Meets(const Claim& claim) const;
  // The part of its range that is counted for its process.
  [[nodiscard]] AddressRanges Counted(const Claim& claim) const;

  // Nothing is charged or watched.
  [[nodiscard]] bool Empty() const { return spaces_.empty() && now_.empty() && over_.empty(); }
  // Threads that are not known to have come out of a mapping.
  [[nodiscard]] std::vector<Thread> Unfinished() const;

  [[nodiscard]] Look BeginLook() { return ++clock_; }
  // The witnesses of address spaces: what they say after the look began goes to Settle(), all of
  // it at once. Who is left out stays as it is.
  [[nodiscard]] std::vector<Witness> Spaces() const;
  // False: a watched mapping has become managed memory and does not fit. It is charged all the
  // same; only a tenant that swaps descriptors gets here.
  [[nodiscard]] bool Settle(Look look, std::map<Witness, Seen> seen);
  // Witnesses of mappings that Settle() did not recognise: what each says goes to Place().
  [[nodiscard]] std::vector<Witness> Unplaced(Look look) const;
  [[nodiscard]] bool Place(Look look, Witness witness, const Seen& seen);

  // A range that is given back if UVM has nothing there: how many address spaces are charged for
  // it, and how many of these doubted. Addresses that a thread is about to map are in none.
  struct Doubt {
    AddressRange range;
    std::size_t charged = 0;
    std::size_t doubted = 0;
  };
  [[nodiscard]] bool HasDoubts() const;
  [[nodiscard]] std::vector<Doubt> Doubts() const;
  // `holders`: how many files of nvidia-uvm have something there. In the settlement that the doubt
  // was raised in.
  void Resolve(const std::vector<std::pair<Doubt, std::size_t>>& holders);
  // Witnesses that are not needed any more. Names each once.
  [[nodiscard]] std::vector<Witness> TakeReleased();

  // From now on `cards` are those that managed memory may lie on. False: what there is does not fit
  // on a new one, and nothing changes.
  [[nodiscard]] bool SetCards(const std::set<ledger::Card>& cards);

  // Handing over (state.cc): records within the open one. What follows from the UVM spaces is told
  // afterwards: Resume(), with the cards that managed memory lies on already.
  void Save(StateWriter& writer) const;
  void Load(StateReader& reader);
  void Resume(const std::set<ledger::Card>& cards);
  // All that are in use, with the processes that they were opened for.
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
  struct Space {
    ledger::ProcessKey process = 0;
    std::set<std::uint64_t> programs;
    AddressRanges counted;
    AddressRanges seen;     // at the last look, or more
    AddressRanges doubted;  // part of what is counted; by the last look
    bool gone = false;
  };
  using Processes = std::set<ledger::ProcessKey>;
  using SeenByWitness = std::map<Witness, Seen>;

  [[nodiscard]] std::vector<const Mapping*> Waiting() const;
  [[nodiscard]] std::vector<Mapping*> Waiting();
  [[nodiscard]] Processes Payers() const;
  [[nodiscard]] std::uint64_t BytesOf(ledger::ProcessKey process) const;
  std::optional<ledger::Card> TryCharge(ledger::ProcessKey process, std::uint64_t bytes);
  bool Recharge(const Processes& before, const Processes& intents);
  void Release(const Mapping& mapping);
  void DoubtGone(const SeenByWitness& seen);
  void DoubtAll(Witness witness);
  void CountShown(Space& space, const AddressRanges& shown) const;
  void Recognise(SeenByWitness& seen, Processes& intents);
  void JoinInto(Witness kept, Witness other, SeenByWitness& seen);
  void SettleOwn(Look look, const SeenByWitness& seen, Processes& intents);
  static void Count(Space& space, Mapping& mapping, const AddressRanges& part, Processes& intents);
  [[nodiscard]] static AddressRanges PartOf(Mapping& mapping, const Seen& seen);
  void DropResolved();
  void NoteResolved(Look look);
  void DropIdle(const SeenByWitness& seen);
  void LoadSpace(StateReader& reader, bool of_process);
  void LoadRange(StateReader& reader, bool counted, bool seen);
  [[nodiscard]] Mapping LoadMapping(StateReader& reader, bool over, Thread* thread) const;

  ledger::Ledger& ledger_;
  std::set<ledger::Card> cards_;
  std::map<Witness, Space> spaces_;
  std::map<Thread, Mapping> now_;  // the last mapping of each thread
  std::vector<Mapping> over_;      // earlier ones that no look has settled yet
  std::vector<Witness> released_;
  // Mappings that this settlement, or the last, has resolved although none knew them to be over.
  AddressRanges resolved_;
  Look resolved_at_ = 0;
  AddressRanges contested_;  // given back although UVM has something there
  Look clock_ = 0;
  bool any_space_ = false;  // there is or was one
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_MANAGED_BOOK_H_
