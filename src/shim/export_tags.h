// The tags of the files that objects of the container are exported to.
//
// Open files have no name that we could know one by. So a file that something is exported to gets a
// tag: an RM client of ours, which only calls made on that very file can use and which lives as
// long as the file. The ledger knows the file by its tag.
#ifndef CGPU_SHIM_EXPORT_TAGS_H_
#define CGPU_SHIM_EXPORT_TAGS_H_

#include <cstddef>
#include <cstdint>
#include <set>

#include "base/mutex.h"
#include "shim/accounting.h"
#include "shim/driver.h"
#include "shim/handover.h"
#include "shim/hurry.h"
#include "shim/pending.h"

namespace cgpu::shim {

// Thread-safe. Each method asks the driver, and may take as long as that.
class ExportTags {
 public:
  // Most files with exported objects at a time: each is a client of the driver, and each is asked
  // about at a close.
  static constexpr std::size_t kMax = 1024;

  // All outlive this. `driver`: null only where nothing but Load() is called.
  ExportTags(Accounting& accounting, const Driver* driver, const Hurry& hurry)
      : accounting_(accounting), driver_(driver), hurry_(hurry) {}

  // Carries out the call's step for the tag of its argument's file, before the boundary decides.
  // Returns false if the driver has no room for a tag. Without a tag the boundary refuses.
  [[nodiscard]] bool Prepare(Pending& pending);
  // Completes the step after the call. `exported`: it was executed and the driver has said yes.
  void Settle(const Pending& pending, bool exported);

  // Takes files off the ledger that the driver has no more. Returns true if there was one.
  bool Reconcile(bool at_leisure);

  [[nodiscard]] bool Empty();

  // Hand-over. Load() is for a fresh one.
  void Save(ServerState& state);
  void Load(const ServerState& state);

 private:
  [[nodiscard]] std::set<std::uint32_t> All();
  [[nodiscard]] bool Full();
  void Add(std::uint32_t tag);
  std::uint32_t Find(int file);
  bool PrepareNew(Pending& pending);
  bool PrepareTable(Pending& pending);

  Accounting& accounting_;
  const Driver* const driver_;
  const Hurry& hurry_;
  // Held while a file's table of exports is set up.
  Mutex table_mutex_ CGPU_ACQUIRED_BEFORE(accounting_.mutex);
  std::set<std::uint32_t> tags_ CGPU_GUARDED_BY(accounting_.mutex);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_EXPORT_TAGS_H_
