// The ledger and the boundary of a container, with the one lock around both, what was refused, and
// how many calls there were.
//
// The lock is never held while the driver is asked or a file of a GPU is opened or closed. Under it
// only locks are taken that are held as shortly: the caller table's, the pool's and the like.
#ifndef CGPU_SHIM_ACCOUNTING_H_
#define CGPU_SHIM_ACCOUNTING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "boundary/boundary.h"
#include "ledger/ledger.h"
#include "protocol/config.h"
#include "rm/abi.h"
#include "shim/counters.h"
#include "shim/handover.h"
#include "shim/scheduler.h"

namespace cgpu::shim {

// Thread-safe: the ledger and the boundary by the public mutex, the rest by itself.
class Accounting {
 public:
  // `gpus` in the order of the grant; `abi` outlives this.
  Accounting(const ShimConfig& config, const rm::Abi& abi, std::vector<boundary::GpuIds> gpus);

  Mutex mutex;
  ledger::Ledger ledger CGPU_GUARDED_BY(mutex);
  boundary::Boundary boundary CGPU_GUARDED_BY(mutex);
  Counters counters;

  // Returns the container's channels on a GPU, or nothing (Scheduler::ListChannels).
  [[nodiscard]] std::optional<Scheduler::Channels> ChannelsOf(std::size_t gpu, std::uint64_t seen);

  // Returns how much of what the ledger holds.
  [[nodiscard]] ledger::Counts Counts();

  // Counts a call that was refused before the boundary saw it, or by another part.
  void CountRefused(boundary::Reason reason, const std::string& what);
  // Counts memory that was refused at the limit of a GPU.
  void CountDenial(ledger::Gpu gpu) CGPU_REQUIRES(mutex);
  // Reports what the boundary has refused. Call it after the boundary has counted.
  void NoteRefusals() CGPU_REQUIRES(mutex);
  // Returns how often what was refused since the start.
  [[nodiscard]] std::map<std::string, std::uint64_t> Refused();
  // Returns a descriptor that is readable when more was refused since the last ResetRefusals(),
  // memory too.
  [[nodiscard]] int refusals() const { return refusals_.get(); }
  void ResetRefusals() const;

  // Hand-over. Load() is for a fresh one and trusts nothing; after an error nothing may use this.
  // `config`: the predecessor's grant, which the ledger must keep within.
  void Save(ServerState& state);
  [[nodiscard]] Result<> Load(const ServerState& state, const ShimConfig& config);

 private:
  const UniqueFd refusals_;                         // an eventfd
  std::uint64_t noted_ CGPU_GUARDED_BY(mutex) = 0;  // of the boundary's refusals
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_ACCOUNTING_H_
