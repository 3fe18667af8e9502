// The only place where the shim enters the driver with calls of tenants, and with its own requests
// on their files of nvidia-uvm.
#ifndef CGPU_SHIM_EXECUTOR_H_
#define CGPU_SHIM_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "boundary/call.h"
#include "rmclient/raw.h"
#include "shim/pending.h"

namespace cgpu::shim {

// Thread-safe.
class Executor {
 public:
  // `calls` outlives this. `room`: the driver's release needs it (boundary::MakeRoom()).
  Executor(rmclient::GpuCalls& calls, bool room) : calls_(calls), room_(room) {}

  // Makes the tenant's call on the file that was taken for it. Returns the ioctl's errno, or 0.
  int Execute(Pending& pending);
  // Makes a request of our own (own_call.h) to nvidia-uvm on `file`. Returns likewise.
  int ExecuteUvm(int file, boundary::Call& call);

  // Returns how long the driver took for each call of a tenant's since the last time this was
  // asked, in nanoseconds and in order, for the latency benchmark. The first call starts the
  // recording.
  [[nodiscard]] std::vector<std::uint32_t> TakeTrace();

 private:
  rmclient::GpuCalls& calls_;
  const bool room_;
  std::atomic<bool> tracing_{false};
  Mutex trace_mutex_;  // taken alone
  std::vector<std::uint32_t> trace_ CGPU_GUARDED_BY(trace_mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_EXECUTOR_H_
