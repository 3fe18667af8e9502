// The shim of one container: its parts, and the way of a call through them.
//
//   receive -> whose file is it -> copy in -> still waiting?     receiver.h
//           -> wait for the turn                                 admission.h
//           -> decide -> execute -> account                      call_steps.h
//           -> copy out -> answer
//
// Calls come from any number of listeners (source.h); everything else is the container's, whichever
// listener a call came by.
//
// Threads: a pool (worker_pool.h) handles the calls, each on one thread. Calls that must wait for
// others are parked without a thread (admission.h). Files whose close can hang are closed on
// threads of their own (reaper.h). Housekeeping (housekeeping.h) runs beside the workers, and the
// desk (desk.h), which takes orders.
//
// Locks: each part has its own, and says what they guard and which come later. In this order:
// the reconciler's, that of managed memory, that of questions about ranges, the scheduler's and
// that of tables of exports, the accounting's. The last is never held while the driver is asked.
#ifndef CGPU_SHIM_SERVER_H_
#define CGPU_SHIM_SERVER_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "boundary/boundary.h"
#include "os/process.h"
#include "protocol/config.h"
#include "rm/abi.h"
#include "rmclient/raw.h"
#include "shim/accounting.h"
#include "shim/admission.h"
#include "shim/call_steps.h"
#include "shim/client_files.h"
#include "shim/control.h"
#include "shim/driver.h"
#include "shim/executor.h"
#include "shim/export_tags.h"
#include "shim/filter_proof.h"
#include "shim/handover.h"
#include "shim/hurry.h"
#include "shim/managed_memory.h"
#include "shim/pending.h"
#include "shim/processes.h"
#include "shim/range_questions.h"
#include "shim/receiver.h"
#include "shim/reconciler.h"
#include "shim/recorder.h"
#include "shim/replay.h"
#include "shim/scheduler.h"
#include "shim/tenant_files.h"
#include "shim/uvm_spaces.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {

// Thread-safe. Its threads run for as long as the process.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): there is one, in the order of its parts
class Server : private CallHandler {
 public:
  // `driver`: null only in a server for nothing but Load(). `record`: see Recorder; `calls`
  // outlives the server.
  Server(ShimConfig config, const rm::Abi& abi, std::unique_ptr<Driver> driver,
         std::vector<boundary::GpuIds> gpus, std::unique_ptr<os::CallerLookup> callers,
         UniqueFd record, rmclient::GpuCalls& calls);

  // Starts what all sources share. Call once, before Serve().
  void Start();

  // Returns its parts.
  [[nodiscard]] const ShimConfig& config() const { return config_; }
  [[nodiscard]] WorkerPool& pool() { return pool_; }
  [[nodiscard]] Accounting& accounting() { return accounting_; }
  [[nodiscard]] ContainerControl& control() { return control_; }
  [[nodiscard]] Reconciler& reconciler() { return reconciler_; }
  [[nodiscard]] ManagedMemory& managed() { return managed_; }
  [[nodiscard]] TenantFiles& files() { return files_; }
  [[nodiscard]] ClientFiles& client_files() { return client_files_; }
  [[nodiscard]] FilterProof& proof() { return proof_; }
  [[nodiscard]] Executor& executor() { return executor_; }

  // --- For housekeeping.
  //
  // Returns a descriptor that is readable when a process has exited.
  [[nodiscard]] int exit_events() const { return callers_->exit_events(); }
  // Forgets exited processes and drops parked calls whose callers are gone.
  void DropDead();
  // Returns the number of calls that wait for others.
  [[nodiscard]] std::size_t Parked() const { return admission_.parked(); }

  // --- For a hot upgrade (handover.h), all of it from one thread, while housekeeping rests.
  //
  // Lets no further call begin and waits until none is under way; then no thread works. kConflict:
  // that took longer than `timeout`; the sentence names a call, and everything goes on.
  [[nodiscard]] Result<> Quiesce(std::chrono::milliseconds timeout);
  // Goes on after Quiesce().
  void Resume();
  // Returns the state, while the server is quiet.
  [[nodiscard]] ServerState Save();
  // Loads what needs no descriptors into a fresh server. Trusts nothing.
  [[nodiscard]] Result<> Load(const ServerState& state);
  // Takes over the rest, with the descriptors. TakeOver() comes first, then Start(), then
  // WorkerPool::ServeAgain().
  void TakeOver(const ServerState& state);

 private:
  void Handle(const SourcePtr& source, const os::Notification& notification) override;
  void Run(std::unique_ptr<ParkedCall> parked) override;
  void WatchOverdue();
  Claim ClaimOf(const Pending& pending);
  void Admit(std::unique_ptr<Pending> pending, bool hold, int changes);
  void TakeTurn(Pending& pending, const Claim& claim);
  void Finish(const Claim& claim);
  int SeeThrough(Pending& pending, bool* copy_out);
  bool Replayed(Pending& pending, ReplayKey& key, Image& input);
  void Deliver(Pending& pending, bool copy_out, int error);
  bool CopyOut(Pending& pending);

  const ShimConfig config_;
  const std::unique_ptr<Driver> driver_;
  const Recorder recorder_;
  const std::unique_ptr<os::CallerLookup> callers_;
  Hurry hurry_;
  Accounting accounting_;
  WorkerPool pool_;
  Scheduler scheduler_;
  ContainerProcesses processes_;
  FilterProof proof_;
  TenantFiles files_;
  Executor executor_;
  ExportTags export_tags_;
  UvmSpaces spaces_;
  ClientFiles client_files_;
  RangeQuestions questions_;
  ManagedMemory managed_;
  Reconciler reconciler_;
  ContainerControl control_;
  Receiver receiver_;
  CallSteps steps_;

  Admission<ParkedCall> admission_;
  Mutex overdue_mutex_;  // taken alone, with nothing but the admission's own
  CondVar anything_parked_;

  Mutex replay_mutex_;  // taken alone
  ReplayLog replay_ CGPU_GUARDED_BY(replay_mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SERVER_H_
