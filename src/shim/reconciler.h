// Takes off the ledger what the driver has no more: clients and exported objects whose files were
// closed, managed memory, address spaces of nvidia-uvm.
#ifndef CGPU_SHIM_RECONCILER_H_
#define CGPU_SHIM_RECONCILER_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/mutex.h"
#include "shim/accounting.h"
#include "shim/client_files.h"
#include "shim/driver.h"
#include "shim/export_tags.h"
#include "shim/hurry.h"
#include "shim/managed_memory.h"
#include "shim/scheduler.h"
#include "shim/uvm_spaces.h"

namespace cgpu::shim {

// Thread-safe.
class Reconciler {
 public:
  // All outlive this. `driver`: null only where nothing is called.
  Reconciler(Accounting& accounting, Driver* driver, Scheduler& scheduler,
             ClientFiles& client_files, ExportTags& export_tags, ManagedMemory& managed,
             UvmSpaces& spaces, Hurry& hurry)
      : accounting_(accounting),
        driver_(driver),
        scheduler_(scheduler),
        client_files_(client_files),
        export_tags_(export_tags),
        managed_(managed),
        spaces_(spaces),
        hurry_(hurry) {}

  // Ends clients whose files have been closed, takes those that the driver has no more off the
  // ledger, and all else that has been closed. Returns true if something went. Cheap when nothing
  // is held. A tenant can make it take long.
  bool Reconcile();
  // Makes Reconcile() return soon, with its work undone, while `hurry`.
  void SetHurry(bool hurry);

  // Reconciles for a call that finds no room, unless a reconciliation begins after this call of it.
  // All such reconciliations together take at most four fifths of the time. There is no result:
  // another thread's may just have found something.
  void ReconcileForCall();

  // Returns true while there is anything that a reconciliation could take off.
  [[nodiscard]] bool Holding();

 private:
  bool ReconcileAll(bool at_leisure) CGPU_REQUIRES(mutex_);
  void CloseGpus();

  Accounting& accounting_;
  Driver* const driver_;
  Scheduler& scheduler_;
  ClientFiles& client_files_;
  ExportTags& export_tags_;
  ManagedMemory& managed_;
  UvmSpaces& spaces_;
  Hurry& hurry_;
  // Held throughout a reconciliation. All locks of the other parts come after it.
  Mutex mutex_ CGPU_ACQUIRED_BEFORE(accounting_.mutex);
  CondVar hurried_;
  std::atomic<std::uint64_t> begun_{0};  // reconciliations
  std::chrono::steady_clock::time_point may_begin_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RECONCILER_H_
