// The shim's heart: receives a container's trapped calls and sees each one through.
//
//   receive -> whose file is it -> copy in -> still waiting? -> decide -> execute -> account
//           -> copy out -> answer
//
// Threads: workers listen for calls; the one that gets a call sees it through itself, and when none
// is left listening another takes its place: a parked one, or a new one (up to kMaxWorkers, of
// which the last kReserved take only calls that give back). The kernel wakes every listening thread
// for each call, so no more listen than it takes to have one while another begins. Calls that must
// wait for others are parked without a thread (admission.h). Descriptors of files that are not a
// GPU's are closed by a thread of their own, since that can hang. Housekeeping (housekeeping.h)
// runs beside them.
//
// Locks: state_mutex_ guards the boundary and the ledger; it is never held while the driver is
// asked, nor together with another lock except replay_mutex_ (taken alone).
#ifndef CGPU_SHIM_SERVER_H_
#define CGPU_SHIM_SERVER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "boundary/boundary.h"
#include "boundary/quotas.h"
#include "kernel/notify.h"
#include "kernel/process.h"
#include "ledger/ledger.h"
#include "registry/admin.h"
#include "registry/config.h"
#include "rm/abi.h"
#include "shim/admission.h"
#include "shim/driver.h"
#include "shim/reaper.h"
#include "shim/recorder.h"
#include "shim/replay.h"
#include "shim/uvm_files.h"

namespace cgpu::shim {

// A call on its way through.
struct Pending {
  kernel::Notification notification;
  std::shared_ptr<const kernel::Caller> caller;
  UniqueFd file;                 // the tenant's, taken for this call
  UniqueFd argument;             // of a descriptor inside the parameters
  std::shared_ptr<UvmFile> uvm;  // of a call on nvidia-uvm's file: the space it belongs to
  boundary::Call call;
  Claim claim;
  bool proceed = false;  // the caller executes the call itself
  bool waited = false;   // was parked: check that its caller still waits
};

class Server {
 public:
  static constexpr int kMaxWorkers = 256;
  static constexpr int kReserved = 2;
  static constexpr int kListening = 2;
  static constexpr int kParked = 4;  // more idle ones than this end themselves
  // Exported objects at a time: each is a client of the driver, and each is asked about at a close.
  static constexpr std::size_t kMaxExports = 1024;

  // `proc`: an open /proc; `record`: see Recorder.
  Server(ShimConfig config, const rm::Abi& abi, std::unique_ptr<Driver> driver,
         std::vector<boundary::CardIds> cards, UniqueFd proc, UniqueFd record);

  // Starts serving. Call once. `first_pid`: the container's first process, 0 if it is not known.
  void Start(kernel::NotifyListener listener, unsigned first_pid);

  // --- For housekeeping, from any thread.
  // Readable when there is something to look after without an exit or a close; then reset by
  // ResetAttention().
  [[nodiscard]] int attention() const { return attention_.get(); }
  void ResetAttention() const;
  [[nodiscard]] int listener_fd() const { return listener_->fd(); }
  [[nodiscard]] int exit_events() const { return callers_.exit_events(); }
  // Forgets exited processes and drops parked calls whose callers are gone.
  void DropDead();
  // Asks the driver which clients still exist and takes the others off the ledger. True: something
  // went. Cheap when nothing is held.
  bool Reconcile();
  // True while the ledger holds anything.
  [[nodiscard]] bool Holding();
  // `uuid` "*": every card of the grant. Takes effect at once; below use, growth stops.
  [[nodiscard]] Result<> SetLimit(const std::string& uuid, std::uint64_t bytes);
  // All but `pid` and `state`, which the server does not know.
  [[nodiscard]] ContainerStatus Status();
  [[nodiscard]] std::map<std::string, std::uint64_t> Refused();
  [[nodiscard]] const ShimConfig& config() const { return config_; }

  // For the latency benchmark: how long the driver took for each executed call since the last time
  // this was asked, in nanoseconds and in order. The first question starts the recording.
  [[nodiscard]] std::vector<std::uint32_t> TakeTrace();

 private:
  void Work(std::unique_ptr<Pending> first);
  // Without a call to see through, the new thread listens. False: there is none, and the call was
  // seen through by this one.
  bool StartWorker(std::unique_ptr<Pending> first);
  [[nodiscard]] bool Listen();
  void ListenSoon();
  void StopListening();
  bool Answer(std::uint64_t id, int error);
  // Threads that could take a call, if all that may be were started.
  int Idle();
  std::unique_ptr<Pending> Prepare(const kernel::Notification& notification);
  std::unique_ptr<Pending> CopyIn(const kernel::Notification& notification, bool fresh,
                                  bool* again);
  void FindSpace(Pending& pending);
  bool TakeArgument(Pending& pending);
  [[nodiscard]] std::optional<boundary::File> Recognise(int fd);
  void Admit(std::unique_ptr<Pending> pending, bool hold);
  void Run(std::unique_ptr<Pending> pending);
  bool Replayed(Pending& pending, ReplayKey& key, Image& input);
  int SeeThrough(Pending& pending, bool* copy_out);
  int Execute(Pending& pending);
  int ExecuteUvm(int file, boundary::Call& call);
  bool ReconcileExports();
  // uvm.cc
  void SeeMmap(const kernel::Notification& notification);
  bool ChargeMapping(ledger::ProcessKey process, pid_t thread, boundary::AddressRange range);
  void NoteThread(pid_t thread);
  bool SettleManaged();
  void SettleProcess(const kernel::Process& process, const kernel::InodeSet& inodes);
  void ForgetMappings(ledger::ProcessKey process);
  void KeepSpace(Pending& pending);
  bool ReconcileSpaces();
  [[nodiscard]] bool IsHeld(const UvmFile& file) const;
  bool EndSpace(const std::shared_ptr<UvmFile>& file);
  void CallForAttention() const;
  // marks.cc
  std::uint32_t FindMark(int file);
  bool MarkTransfer(Pending& pending);
  bool MarkTable(Pending& pending);
  void SettleMark(const Pending& pending, bool exported);
  Result<> PrepareDevice(const boundary::Call& call, const boundary::Decision& decision);
  void Deliver(Pending& pending, bool copy_out, int error);
  bool CopyOut(Pending& pending);
  void Finish(const Claim& claim);
  std::map<ledger::ProcessKey, std::uint32_t> ContainerPids() const;
  void Discard(UniqueFd file);

  const ShimConfig config_;
  const rm::Abi& abi_;
  const std::unique_ptr<Driver> driver_;
  const Recorder recorder_;
  std::optional<kernel::NotifyListener> listener_;
  kernel::CallerTable callers_;
  Admission<Pending> admission_;

  std::mutex state_mutex_;  // guards ledger_, boundary_, exports_
  ledger::Ledger ledger_;
  boundary::Boundary boundary_;
  std::mutex table_mutex_;  // held while a file's table of exports is set up; before state_mutex_
  std::set<std::uint32_t> exports_;  // marks of the files that hold exported objects

  UvmFiles uvm_files_;
  std::atomic<bool> mapping_{false};  // some thread may be in a mapping that it was let into
  UniqueFd attention_;                // an eventfd
  pid_t first_pid_ = 0;               // the container's first process; set before serving

  std::mutex replay_mutex_;  // guards replay_
  ReplayLog replay_;

  std::mutex trace_mutex_;  // guards trace_
  std::vector<std::uint32_t> trace_;
  std::atomic<bool> tracing_{false};

  std::atomic<int> workers_{0};
  std::mutex listen_mutex_;  // guards listening_, parked_, calls_
  std::condition_variable called_;
  int listening_ = 0;
  int parked_ = 0;
  int calls_ = 0;  // of parked ones that have not come yet

  std::shared_ptr<Reaper> reaper_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SERVER_H_
