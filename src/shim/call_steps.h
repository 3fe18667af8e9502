// Takes the steps of an admitted call: decide -> execute -> account.
//
// The decision names the steps that a call needs beside its execution (boundary/decision.h,
// Effects). No lock is held from one step to the next, but the one that keeps questions about
// ranges out.
#ifndef CGPU_SHIM_CALL_STEPS_H_
#define CGPU_SHIM_CALL_STEPS_H_

#include <optional>

#include "base/result.h"
#include "boundary/call.h"
#include "boundary/decision.h"
#include "ledger/ledger.h"
#include "os/process.h"
#include "shim/accounting.h"
#include "shim/client_files.h"
#include "shim/driver.h"
#include "shim/executor.h"
#include "shim/export_tags.h"
#include "shim/managed_memory.h"
#include "shim/pending.h"
#include "shim/range_questions.h"
#include "shim/reconciler.h"
#include "shim/recorder.h"
#include "shim/scheduler.h"
#include "shim/uvm_spaces.h"

namespace cgpu::shim {

// Thread-safe, for calls that may run side by side (admission.h).
class CallSteps {
 public:
  // All outlive this. `driver`: null only where nothing is called.
  CallSteps(Accounting& accounting, Driver* driver, Scheduler& scheduler,
            const os::CallerLookup& callers, const Recorder& recorder, Executor& executor,
            ExportTags& export_tags, UvmSpaces& spaces, ClientFiles& client_files,
            RangeQuestions& questions, ManagedMemory& managed, Reconciler& reconciler)
      : accounting_(accounting),
        driver_(driver),
        scheduler_(scheduler),
        callers_(callers),
        recorder_(recorder),
        executor_(executor),
        export_tags_(export_tags),
        spaces_(spaces),
        client_files_(client_files),
        questions_(questions),
        managed_(managed),
        reconciler_(reconciler) {}

  struct Outcome {
    int error = 0;          // the errno for the tenant
    bool copy_out = false;  // the call holds results
    bool taken = false;     // false: there was no room to begin, and nothing has changed
  };
  [[nodiscard]] Outcome Take(Pending& pending);

 private:
  [[nodiscard]] boundary::Decision DecideCertain(Pending& pending);
  [[nodiscard]] boundary::Decision Decide(Pending& pending);
  int ExecuteDecided(Pending& pending, boundary::Decision& decision);
  void Account(Pending& pending, boundary::Decision& decision, int error);
  // Keeps the file of a client that the call has made, or forgets one that it has freed.
  void KeepClientFile(Pending& pending, const boundary::Decision& decision);
  // Fills in an answer that the ledger gives.
  void AnswerOfProcesses(boundary::Call& call, const boundary::Decision& decision);
  // A channel or a group that is put on a runlist, or taken off it.
  struct Scheduling {
    ledger::Gpu gpu = 0;
    std::uint64_t object = 0;  // ledger::ChannelInfo's id or group
    bool on = false;
  };
  [[nodiscard]] std::optional<Scheduling> WhatIsScheduled(const boundary::Call& call,
                                                          const boundary::Decision& decision);
  int Schedule(Pending& pending, const Scheduling& what);
  int SwitchChannels(Pending& pending, ledger::Gpu gpu);
  Result<> PrepareDevice(const boundary::Decision& decision);

  Accounting& accounting_;
  Driver* const driver_;
  Scheduler& scheduler_;
  const os::CallerLookup& callers_;
  const Recorder& recorder_;
  Executor& executor_;
  ExportTags& export_tags_;
  UvmSpaces& spaces_;
  ClientFiles& client_files_;
  RangeQuestions& questions_;
  ManagedMemory& managed_;
  Reconciler& reconciler_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_CALL_STEPS_H_
