// The address spaces of nvidia-uvm that tenants have made: one for each initialised open file.
// Makes them known, and ends those whose files no process of the container has any more.
#ifndef CGPU_SHIM_UVM_SPACES_H_
#define CGPU_SHIM_UVM_SPACES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "boundary/boundary.h"
#include "os/process.h"
#include "rm/abi.h"
#include "shim/accounting.h"
#include "shim/executor.h"
#include "shim/handover.h"
#include "shim/hurry.h"
#include "shim/kept_files.h"
#include "shim/pending.h"
#include "shim/processes.h"
#include "shim/reaper.h"

namespace cgpu::shim {

// Thread-safe, except where the pipeline must let a call have a space for itself: Keep() and
// Refuse() are for calls that may make one (boundary::kAnySpace).
class UvmSpaces {
 public:
  // All outlive this. `proc`: an open /proc.
  UvmSpaces(const rm::Abi& abi, int proc, Accounting& accounting, Executor& executor,
            const ContainerProcesses& processes, const Hurry& hurry);

  // Starts the thread that closes files. Call once, before the first space ends.
  void Start();

  [[nodiscard]] const UvmFiles& files() const { return files_; }

  // Finds the space of the file that the call is made on. While the call has it, it does not end.
  void Find(Pending& pending);
  // Returns the status for an INITIALIZE that would make another space and may not.
  [[nodiscard]] std::optional<std::uint32_t> Refuse(const Pending& pending);
  // Keeps the space that the call, a successful INITIALIZE, has made.
  void Keep(Pending& pending);

  // Ends the spaces whose files no process of the container has any more. Asks the driver. Returns
  // true if there was one.
  bool Reconcile(bool at_leisure);

  // Returns true if no file is being closed.
  [[nodiscard]] bool Idle() { return closer_->Idle(); }

  // Hand-over, with the descriptors. `processes`: those of the container.
  void Save(ServerState& state) const;
  void TakeOver(const ServerState& state, const ProcessesBySerial& processes);

 private:
  bool End(const std::shared_ptr<KeptFile>& file);
  [[nodiscard]] std::vector<boundary::Call> CallsToEmpty(std::uint64_t space);

  const rm::Abi& abi_;
  const int proc_;
  Accounting& accounting_;
  Executor& executor_;
  const ContainerProcesses& processes_;
  const Hurry& hurry_;
  UvmFiles files_;
  const std::shared_ptr<Reaper> closer_ = std::make_shared<Reaper>();  // a close ends a space
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_UVM_SPACES_H_
