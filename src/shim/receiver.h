// Turns a notification into a decoded call: whose file is it -> copy in -> still waiting?
//
// Answers what needs no more than that: calls of the registers alone, on files that are no GPU's,
// that cannot be copied in, and mmaps.
#ifndef CGPU_SHIM_RECEIVER_H_
#define CGPU_SHIM_RECEIVER_H_

#include <memory>

#include "os/notify.h"
#include "os/process.h"
#include "rm/abi.h"
#include "shim/accounting.h"
#include "shim/filter_proof.h"
#include "shim/managed_memory.h"
#include "shim/pending.h"
#include "shim/processes.h"
#include "shim/recorder.h"
#include "shim/tenant_files.h"
#include "shim/uvm_spaces.h"
#include "shim/worker_pool.h"

namespace cgpu::shim {

// For the threads of the pool.
class Receiver {
 public:
  // All outlive this.
  Receiver(const rm::Abi& abi, os::CallerLookup& callers, const Recorder& recorder,
           Accounting& accounting, WorkerPool& pool, ContainerProcesses& processes,
           FilterProof& proof, TenantFiles& files, UvmSpaces& spaces, ManagedMemory& managed)
      : abi_(abi),
        callers_(callers),
        recorder_(recorder),
        accounting_(accounting),
        pool_(pool),
        processes_(processes),
        proof_(proof),
        files_(files),
        spaces_(spaces),
        managed_(managed) {}

  // Handles a notification up to a decoded call that waits for admission. Returns null if it was
  // answered, or its caller is gone.
  std::unique_ptr<Pending> Receive(const SourcePtr& source, const os::Notification& notification);
  // Copies an ioctl in, for Receive() or when its turn has come. Returns likewise.
  std::unique_ptr<Pending> CopyIn(const SourcePtr& source, const os::Notification& notification);
  // Copies in what the call's parameters lead to. Waits while other calls hold too much of that.
  void CopyInRest(Pending& pending);
  // Answers with an error. The number of a thread that is gone may be another's.
  void Fail(const Source& source, const os::Notification& notification, boundary::CallKind kind,
            int error);

 private:
  std::unique_ptr<Pending> TryCopyIn(const SourcePtr& source, const os::Notification& notification,
                                     bool fresh, bool* again);
  bool TakeArgument(Pending& pending);
  void CountAnswered(const os::Notification& notification, boundary::CallKind kind) {
    accounting_.counters.CountAnswered(kind, notification.received);
  }
  // mapping_calls.cc
  void SeeMapping(const Source& source, const os::Notification& notification);
  [[nodiscard]] std::shared_ptr<const os::Caller> FindMapper(pid_t thread);
  [[nodiscard]] bool IsOwnSpace(const os::Caller& caller, int number);

  const rm::Abi& abi_;
  os::CallerLookup& callers_;
  const Recorder& recorder_;
  Accounting& accounting_;
  WorkerPool& pool_;
  ContainerProcesses& processes_;
  FilterProof& proof_;
  TenantFiles& files_;
  UvmSpaces& spaces_;
  ManagedMemory& managed_;
  ByteBudget rest_{boundary::kMaxRest};
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_RECEIVER_H_
