// The managed memory of a container's processes: charged before the mapping is made, settled by
// what /proc shows afterwards.
//
// A mapping is made by the tenant's own thread after we have let it through, and nothing tells when
// it is done; that the thread has made another call does. Until then its charge stays, whatever
// /proc shows. Memory is charged on every card that a UVM space of the container has registered,
// since it may come to lie on any.
//
// Pure; thread-compatible. Looks at /proc take time and are made without a lock: BeginLook()
// before, Settle() after.
#ifndef CGPU_BOUNDARY_MANAGED_BOOK_H_
#define CGPU_BOUNDARY_MANAGED_BOOK_H_

#include <cstdint>
#include <map>
#include <set>
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

  // `ledger` outlives this.
  explicit ManagedBook(ledger::Ledger& ledger) : ledger_(ledger) {}

  // A mapping that the thread is about to make. Returns a card that it does not fit on; then
  // nothing is charged.
  std::optional<ledger::Card> Charge(ledger::ProcessKey process, Thread thread, AddressRange range);
  // One that can become managed memory only by intent: not charged, but looked for.
  void Watch(ledger::ProcessKey process, Thread thread, AddressRange range);
  // The thread has come out of its last mapping. Without a UVM space that mapping is none of ours.
  void Over(Thread thread);
  void SetAnySpace(bool any) { any_space_ = any; }
  // Mappings that are over and wait for a look.
  [[nodiscard]] std::size_t Unsettled() const { return over_.size(); }

  // Processes that may have managed memory or make some.
  [[nodiscard]] std::vector<ledger::ProcessKey> Processes() const;
  // Threads that are not known to have come out of a mapping.
  [[nodiscard]] std::vector<Thread> Unfinished() const;

  using Look = std::uint64_t;
  [[nodiscard]] Look BeginLook() { return ++clock_; }
  // `shown`: the mappings of UVM files that the process had at some moment after `look` began.
  // False: a watched mapping has become managed memory and does not fit. It is charged all the
  // same; only a tenant that swaps descriptors gets here.
  [[nodiscard]] bool Settle(ledger::ProcessKey process, Look look, std::vector<AddressRange> shown);
  // The process is gone, and UVM has cleaned up what it had.
  void Remove(ledger::ProcessKey process);

  // From now on `cards` are those that managed memory may lie on. False: what there is does not fit
  // on a new one, and nothing changes.
  [[nodiscard]] bool SetCards(const std::set<ledger::Card>& cards);

  // Handing over (state.cc): records within the open one. What follows from the UVM spaces is told
  // afterwards: SetAnySpace() and Resume(), with the cards that managed memory lies on already.
  void Save(StateWriter& writer) const;
  void Load(StateReader& reader);
  void Resume(const std::set<ledger::Card>& cards);

 private:
  struct Mapping {
    ledger::ProcessKey process = 0;
    AddressRange range;
    bool watched = false;       // not charged
    std::uint64_t over_at = 0;  // 0: not known to be over
  };

  [[nodiscard]] std::uint64_t BytesOf(ledger::ProcessKey process) const;
  std::optional<ledger::Card> TryCharge(ledger::ProcessKey process, std::uint64_t bytes);
  void Begin(Thread thread, Mapping mapping);
  [[nodiscard]] Mapping LoadMapping(StateReader& reader) const;

  ledger::Ledger& ledger_;
  std::set<ledger::Card> cards_;
  std::map<ledger::ProcessKey, std::vector<AddressRange>> shown_;
  std::map<Thread, Mapping> now_;  // the last mapping of each thread
  std::vector<Mapping> over_;      // earlier ones that no look has settled yet
  std::uint64_t clock_ = 0;
  bool any_space_ = false;
};

}  // namespace cgpu::boundary

#endif  // CGPU_BOUNDARY_MANAGED_BOOK_H_
