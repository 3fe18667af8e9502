// Answers root, cgpud and `cgpu ps`: the limits of a container, its orders, what it uses.
//
// An order of root must arrive whatever the container does. So nothing here waits for anything that
// a tenant could make longer: only for locks that are held shortly, those of the accounting, the
// scheduler, the caller table and the driver.
#ifndef CGPU_SHIM_CONTROL_H_
#define CGPU_SHIM_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "governor/order.h"
#include "os/process.h"
#include "protocol/admin.h"
#include "protocol/config.h"
#include "shim/accounting.h"
#include "shim/driver.h"
#include "shim/scheduler.h"

namespace cgpu::shim {

// Thread-safe. GPUs are named by their UUID; kNotFound: no GPU of the grant.
class ContainerControl {
 public:
  // All outlive this. `driver`: null only where nothing is called.
  ContainerControl(const ShimConfig& config, Accounting& accounting, Scheduler& scheduler,
                   Driver* driver, const os::CallerLookup& callers)
      : config_(config),
        accounting_(accounting),
        scheduler_(scheduler),
        driver_(driver),
        callers_(callers) {}

  // Sets a limit at once; below use, growth stops. `uuid` "*": every GPU of the grant. kInvalid: as
  // Ledger::SetLimit().
  [[nodiscard]] Result<> SetLimit(const std::string& uuid, std::uint64_t bytes);
  // Sets an order, which holds until the next. `helper`: the socket of one that sets interleave
  // levels and restarts lists, or none.
  [[nodiscard]] Result<> SetOrder(const std::string& uuid, const governor::Order& order,
                                  UniqueFd helper);
  // Returns all fields except `pid` and `state`, which are not known here.
  [[nodiscard]] ContainerStatus Status();
  // Returns the memory of one GPU.
  [[nodiscard]] Result<GpuMemory> MemoryOf(const std::string& uuid);

 private:
  // Returns the place of the GPU in the grant.
  [[nodiscard]] Result<std::size_t> Find(const std::string& uuid) const;

  const ShimConfig& config_;
  Accounting& accounting_;
  Scheduler& scheduler_;
  Driver* const driver_;
  const os::CallerLookup& callers_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_CONTROL_H_
