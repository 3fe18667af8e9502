// The processes of a container, as far as they are known: those that have made calls, and the first
// one under each filter.
#ifndef CGPU_SHIM_PROCESSES_H_
#define CGPU_SHIM_PROCESSES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/process.h"
#include "shim/accounting.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {

using ProcessesBySerial = std::map<std::uint64_t, std::shared_ptr<const os::Process>>;

// Thread-safe.
class ContainerProcesses {
 public:
  // All outlive this.
  ContainerProcesses(Accounting& accounting, const os::CallerLookup& callers, WorkerPool& pool)
      : accounting_(accounting), callers_(callers), pool_(pool) {}

  // Returns the numbers of all, of the descendants of the first ones, and of orphans that process 1
  // of their namespace has adopted.
  [[nodiscard]] std::vector<pid_t> All() const;

  void Kill();
  // Kills them because of `why`, which is counted as refused. Until they are gone nothing more of
  // theirs is taken or executed.
  void Condemn(const std::string& why);
  [[nodiscard]] bool condemned() const { return condemned_.load(std::memory_order_relaxed); }

 private:
  Accounting& accounting_;
  const os::CallerLookup& callers_;
  WorkerPool& pool_;
  std::atomic<bool> condemned_{false};
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_PROCESSES_H_
