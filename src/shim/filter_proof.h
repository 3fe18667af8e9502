// The proof that the container's filter is cgpu's (sandbox/proof.h).
#ifndef CGPU_SHIM_FILTER_PROOF_H_
#define CGPU_SHIM_FILTER_PROOF_H_

#include <atomic>
#include <optional>

#include "os/notify.h"
#include "protocol/config.h"
#include "sandbox/proof.h"
#include "shim/accounting.h"
#include "shim/handover.h"
#include "shim/processes.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {

class FilterProof {
 public:
  // All outlive this. `proc`: an open /proc.
  FilterProof(const ShimConfig& config, int proc, Accounting& accounting, WorkerPool& pool,
              ContainerProcesses& processes)
      : config_(config),
        proc_(proc),
        accounting_(accounting),
        pool_(pool),
        processes_(processes),
        unproved_(config.prove) {}

  // Answers a call that asks for the proof (sandbox::IsProof()). From any thread of the pool.
  void Take(const SourcePtr& source, const os::Notification& notification);

  // Ends the container if its first process runs a program of the image and no proof has come.
  // Returns true if none has come; look again soon. From one thread alone.
  bool Look();

  // Hand-over.
  void Save(ServerState& state) const { state.unproved = unproved_.load(); }
  void Load(const ServerState& state) { unproved_.store(state.unproved); }

 private:
  const ShimConfig& config_;
  const int proc_;
  Accounting& accounting_;
  WorkerPool& pool_;
  ContainerProcesses& processes_;
  std::atomic<bool> unproved_;                     // a proof is still to come
  std::optional<sandbox::Program> first_program_;  // of the process that still has to prove its
                                                   // filter; for Look() alone
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_FILTER_PROOF_H_
