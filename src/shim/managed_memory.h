// The managed memory of a container: charges mappings before the kernel makes them, and finds out
// afterwards what has become of them (boundary/managed_tracker.h).
//
// A charge stays until the files of the address space show that the mapping was not made, or is
// gone, or that no process uses the address space any more and UVM has nothing left there.
#ifndef CGPU_SHIM_MANAGED_MEMORY_H_
#define CGPU_SHIM_MANAGED_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "boundary/managed.h"
#include "boundary/managed_tracker.h"
#include "os/process.h"
#include "shim/accounting.h"
#include "shim/handover.h"
#include "shim/hurry.h"
#include "shim/processes.h"
#include "shim/range_questions.h"
#include "shim/witnesses.h"

namespace cgpu::shim {

// Thread-safe.
class ManagedMemory {
 public:
  // All outlive this. `proc`: an open /proc. `make_room`: looks at what has been closed meanwhile;
  // called without a lock where a charge does not fit.
  ManagedMemory(int proc, Accounting& accounting, RangeQuestions& questions,
                ContainerProcesses& processes, const Hurry& hurry, std::function<void()> make_room);

  // Opens the caller's address space as a witness. Returns 0 if there is no room, or the thread is
  // gone.
  [[nodiscard]] Witnesses::Number OpenWitness(const os::Caller& caller);
  void DropWitness(Witnesses::Number witness) { witnesses_.Drop({witness}); }

  // Begins a mapping while its call is held. Returns false if it does not fit; then the witness is
  // the caller's to drop.
  [[nodiscard]] bool Begin(boundary::MmapKind kind, const boundary::ManagedTracker::Claim& claim,
                           pid_t thread);
  // Notes that the thread makes another call, so the mapping that it was let into is over.
  void NoteThread(pid_t thread);
  // Has housekeeping look soon, after a suspect mapping was let through.
  void CallForLook() const;

  // Settles. Returns true if something may have been given back. At leisure it stops when others
  // are in a hurry, and does the rest later: no tenant is refused anything for it.
  bool Settle(bool at_leisure = false);

  // Returns true if a process outside of the container may have been sent a file of nvidia-uvm.
  [[nodiscard]] bool MayBeShared() const { return questions_.HasFiles(); }
  // Looks for managed memory that such a process has made in the container's address spaces, and
  // ends the container if it is found in two looks that follow each other, or in many of them. One
  // thread calls it, about every second.
  void LookForOthers();

  // Returns true while it watches for what a thread may map at any time.
  [[nodiscard]] bool Watching();
  // Returns a descriptor that is readable after CallForLook(); reset it by ResetAttention().
  [[nodiscard]] int attention() const { return attention_.get(); }
  void ResetAttention() const;

  // Hand-over, with the descriptors. `processes`: those of the container.
  void Save(ServerState& state) const;
  void TakeOver(const ServerState& state, const ProcessesBySerial& processes);

 private:
  using Seen = boundary::ManagedTracker::Seen;

  [[nodiscard]] bool Charge(const boundary::ManagedTracker::Claim& claim, pid_t thread);
  bool SettleAll(bool at_leisure) CGPU_REQUIRES(settle_mutex_);
  void DropReleased() CGPU_REQUIRES(accounting_.mutex);
  [[nodiscard]] std::map<boundary::ManagedTracker::Witness, Seen> Ask(
      const std::vector<boundary::ManagedTracker::Witness>& witnesses, bool at_leisure);

  const int proc_;
  Accounting& accounting_;
  RangeQuestions& questions_;
  ContainerProcesses& processes_;
  const Hurry& hurry_;
  const std::function<void()> make_room_;
  const UniqueFd attention_;          // an eventfd
  std::atomic<bool> mapping_{false};  // some thread may be in a mapping that it was let into
  Witnesses witnesses_;
  int others_ = 0;  // how certain LookForOthers() is
  // Held throughout a settlement. The questions' lock comes after it.
  Mutex settle_mutex_ CGPU_ACQUIRED_BEFORE(accounting_.mutex);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_MANAGED_MEMORY_H_
