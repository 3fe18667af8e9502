// The core of the shim: receives a container's trapped calls and sees each one through.
//
//   receive -> whose file is it -> copy in -> still waiting? -> decide -> execute -> account
//           -> copy out -> answer
//
// Calls come from any number of listeners (source.h); everything else is the container's, whichever
// listener a call came by.
//
// Threads: a pool (worker_pool.h) handles the calls, each on one thread. Calls that must wait for
// others are parked without a thread (admission.h). The shim does not take descriptors of files
// that are not a GPU's (tenant_files.h). It closes those of a tenant that swaps them on a thread of
// their own, since that can hang. Housekeeping (housekeeping.h) runs beside the workers, and the
// desk (desk.h), which takes orders.
//
// Locks: the members say what guards them, and in which order the locks are taken.
// accounting_.mutex is never held while the driver is asked or a file of a GPU is opened or closed;
// only the caller table's, the pool's and the like, which are held as shortly, may be taken under
// it. The desk waits only for locks that are held as shortly: accounting_.mutex, the pool's, the
// scheduler's and those of the caller table and the driver.
#ifndef CGPU_SHIM_SERVER_H_
#define CGPU_SHIM_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "boundary/boundary.h"
#include "ledger/ledger.h"
#include "os/process.h"
#include "protocol/admin.h"
#include "protocol/config.h"
#include "rm/abi.h"
#include "shim/accounting.h"
#include "shim/admission.h"
#include "shim/driver.h"
#include "shim/executor.h"
#include "shim/export_tags.h"
#include "shim/filter_proof.h"
#include "shim/gpu_calls.h"
#include "shim/handover.h"
#include "shim/hurry.h"
#include "shim/managed_memory.h"
#include "shim/pending.h"
#include "shim/processes.h"
#include "shim/range_questions.h"
#include "shim/reaper.h"
#include "shim/recorder.h"
#include "shim/replay.h"
#include "shim/scheduler.h"
#include "shim/tenant_files.h"
#include "shim/uvm_spaces.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): there is one, in the order of its locks
class Server : private CallHandler {
 public:
  // `record`: see Recorder; `calls` outlives the server.
  Server(ShimConfig config, const rm::Abi& abi, std::unique_ptr<Driver> driver,
         std::vector<boundary::CardIds> cards, std::unique_ptr<os::CallerLookup> callers,
         UniqueFd record, GpuCalls& calls);

  // Starts what all sources share. Call once, before Serve().
  void Start();

  [[nodiscard]] Accounting& accounting() { return accounting_; }
  // Returns the threads and the listeners.
  [[nodiscard]] WorkerPool& pool() { return pool_; }
  [[nodiscard]] FilterProof& proof() { return proof_; }
  [[nodiscard]] TenantFiles& files() { return files_; }
  [[nodiscard]] Executor& executor() { return executor_; }
  [[nodiscard]] ManagedMemory& managed() { return managed_; }

  // --- For housekeeping, from any thread.
  [[nodiscard]] int exit_events() const { return callers_->exit_events(); }
  // Forgets exited processes and drops parked calls whose callers are gone.
  void DropDead();
  // Asks the driver which clients still exist and takes the others off the ledger. Returns true if
  // something went. Cheap when nothing is held. A tenant can make it take long.
  bool Reconcile();
  // Makes Reconcile() return soon, with its work undone, while `hurry`.
  void SetHurry(bool hurry);
  // Returns true while the ledger holds anything.
  [[nodiscard]] bool Holding();
  // Returns how much of what the ledger holds.
  [[nodiscard]] ledger::Counts WhatIsHeld();
  // Returns the number of calls that wait for others.
  [[nodiscard]] std::size_t Parked() const { return admission_.parked(); }
  // Sets a limit at once; below use, growth stops. `uuid` "*": every GPU of the grant.
  [[nodiscard]] Result<> SetLimit(const std::string& uuid, std::uint64_t bytes);
  // Sets an order, which holds until the next. `helper`: the socket of one that sets interleave
  // levels, or none. kNotFound: no GPU of the grant.
  [[nodiscard]] Result<> SetOrder(const std::string& uuid, const governor::Order& order,
                                  UniqueFd helper);
  // Returns all fields except `pid` and `state`, which the server does not know.
  [[nodiscard]] ContainerStatus Status();
  // Returns the memory of one GPU. kNotFound: no GPU of the grant.
  [[nodiscard]] Result<CardMemory> MemoryOf(const std::string& uuid);
  [[nodiscard]] const ShimConfig& config() const { return config_; }

  // --- For a hot upgrade (handover.h), all of it from one thread, while housekeeping rests.
  //
  // Lets no further call begin and waits until none is under way; then no thread works. kConflict:
  // that took longer than `patience`; the sentence names a call, and everything goes on.
  [[nodiscard]] Result<> Quiesce(std::chrono::milliseconds patience);
  // Goes on after Quiesce().
  void Resume();
  // Returns the state, while the server is quiet.
  [[nodiscard]] ServerState Save();
  // Loads the accounting without descriptors into a fresh server. Trusts nothing.
  [[nodiscard]] Result<> LoadBooks(const ServerState& state);
  // Take over the rest, with the descriptors. TakeOver() comes first, then Start(), then
  // WorkerPool::ServeAgain().
  void TakeOver(const ServerState& state);

 private:
  void Handle(const SourcePtr& source, const os::Notification& notification) override;
  void Run(std::unique_ptr<Pending> pending) override;
  void WatchOverdue();
  std::unique_ptr<Pending> Prepare(const SourcePtr& source, const os::Notification& notification);
  std::unique_ptr<Pending> CopyIn(const SourcePtr& source, const os::Notification& notification,
                                  bool fresh, bool* again);
  bool TakeArgument(Pending& pending);
  void Admit(std::unique_ptr<Pending> pending, bool hold);
  bool Replayed(Pending& pending, ReplayKey& key, Image& input);
  int SeeThrough(Pending& pending, bool* copy_out);
  [[nodiscard]] boundary::Decision Decide(Pending& pending);
  int ExecuteDecided(Pending& pending, boundary::Decision& decision);
  void ReconcileForCall();
  bool ReconcileAll(bool at_leisure) CGPU_REQUIRES(reconcile_mutex_);
  void CloseCards();
  // mapping_calls.cc
  void SeeMapping(const Source& source, const os::Notification& notification);
  [[nodiscard]] std::shared_ptr<const os::Caller> FindMapper(pid_t thread);
  int SwitchChannels(Pending& pending, ledger::Card card);
  [[nodiscard]] std::optional<ledger::Card> CardOfSchedule(const boundary::Call& call,
                                                           const boundary::Decision& decision);
  Result<> PrepareDevice(const boundary::Decision& decision);
  void Deliver(Pending& pending, bool copy_out, int error);
  bool CopyOut(Pending& pending);
  void Finish(const Claim& claim);
  std::map<ledger::ProcessKey, std::uint32_t> ContainerPids() const;
  // Fills in an answer that the ledger gives.
  void AnswerOfProcesses(boundary::Call& call, const boundary::Decision& decision);

  const ShimConfig config_;
  const rm::Abi& abi_;
  const std::unique_ptr<Driver> driver_;
  const Recorder recorder_;
  const std::unique_ptr<os::CallerLookup> callers_;
  Accounting accounting_;
  WorkerPool pool_;
  Admission<Pending> admission_;
  Mutex overdue_mutex_;  // taken alone, with nothing but the admission's own
  CondVar anything_parked_;
  Scheduler scheduler_;  // its lock comes before accounting_.mutex

  Hurry hurry_;
  ExportTags export_tags_;

  // Held throughout a reconciliation.
  Mutex reconcile_mutex_ CGPU_ACQUIRED_BEFORE(accounting_.mutex);
  CondVar hurried_;
  std::atomic<std::uint64_t> begun_{0};  // reconciliations
  std::chrono::steady_clock::time_point may_begin_ CGPU_GUARDED_BY(reconcile_mutex_);

  ContainerProcesses processes_;
  FilterProof proof_;
  TenantFiles files_;
  Executor executor_;
  UvmSpaces spaces_;
  RangeQuestions questions_;
  ManagedMemory managed_;
  Mutex replay_mutex_;  // taken alone
  ReplayLog replay_ CGPU_GUARDED_BY(replay_mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SERVER_H_
