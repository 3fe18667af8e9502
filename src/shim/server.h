// The core of the shim: receives a container's trapped calls and sees each one through.
//
//   receive -> whose file is it -> copy in -> still waiting? -> decide -> execute -> account
//           -> copy out -> answer
//
// Calls come from any number of listeners (source.h); everything else is the container's, whichever
// listener a call came by.
//
// Threads: workers listen for calls, each at one source. The worker that gets a call sees it
// through itself. When none is left listening there, another takes its place: an idle one, or a new
// one. The kernel wakes every listening thread for each call, so no more listen than it takes to
// have one while another begins. At most kMaxWorkers are in calls, and the last kReserved of them
// take only calls that give back. Beyond those, every source has one that takes such calls. So the
// number of threads is limited by the calls and the sources, and no source waits for another's.
// Calls that must wait for others are parked without a thread (admission.h); when their turn comes
// an idle thread takes them, or a new one. The shim does not take descriptors of files that are not
// a GPU's (taking.cc). It closes those of a tenant that swaps them on a thread of their own, since
// that can hang. Housekeeping (housekeeping.h) runs beside the workers, and the desk (desk.h),
// which takes orders.
//
// Locks: state_mutex_ guards the boundary and the ledger. It is never held while the driver is
// asked, nor together with another lock except replay_mutex_ (taken alone) and those that come
// before it: reconcile_mutex_, settle_mutex_, ranges_mutex_, table_mutex_ and the scheduler's, in
// this order. The desk waits only for locks that are held as shortly: state_mutex_, listen_mutex_,
// the scheduler's and those of the caller table and the driver.
#ifndef CGPU_SHIM_SERVER_H_
#define CGPU_SHIM_SERVER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "boundary/boundary.h"
#include "boundary/quotas.h"
#include "kernel/notify.h"
#include "kernel/process.h"
#include "kernel/proof.h"
#include "ledger/ledger.h"
#include "registry/admin.h"
#include "registry/config.h"
#include "rm/abi.h"
#include "shim/admission.h"
#include "shim/driver.h"
#include "shim/handover.h"
#include "shim/reaper.h"
#include "shim/recorder.h"
#include "shim/replay.h"
#include "shim/scheduler.h"
#include "shim/source.h"
#include "shim/uvm_files.h"
#include "shim/witnesses.h"

namespace cgpu::shim {

// A thread of the server's.
struct Worker {
  Source* source = nullptr;  // where it listens when it has nothing else to do
  bool listening = false;    // the source counts it among its listening threads
  pid_t thread = 0;
  // The request that it asks the driver, for others to see: the escape above 32 bits of what it
  // selects, or nvidia-uvm's request; and the thread that it asks for. 0: none.
  std::atomic<std::uint64_t> asked{0};
  std::atomic<pid_t> caller{0};
};

// A call on its way through.
struct Pending {
  std::shared_ptr<Source> source;  // where the notification came from
  kernel::Notification notification;
  std::shared_ptr<const kernel::Caller> caller;
  UniqueFd file;                 // the tenant's, taken for this call
  UniqueFd argument;             // the file of a descriptor inside the parameters
  std::shared_ptr<UvmFile> uvm;  // for a call on nvidia-uvm's file: the space it belongs to
  boundary::Call call;
  Claim claim;
  bool proceed = false;  // the caller executes the call itself
  bool waited = false;   // was parked: check that its caller still waits
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): there is one, in the order of its locks
class Server {
 public:
  static constexpr int kMaxWorkers = 256;
  static constexpr int kReserved = 2;
  static constexpr int kListening = 2;  // at each source
  static constexpr int kParked = 4;     // further idle ones end themselves
  // Most exported objects at a time: each is a client of the driver, and each is asked about at a
  // close.
  static constexpr std::size_t kMaxExports = 1024;

  // `proc`: an open /proc; `record`: see Recorder.
  Server(ShimConfig config, const rm::Abi& abi, std::unique_ptr<Driver> driver,
         std::vector<boundary::CardIds> cards, UniqueFd proc, UniqueFd record);

  // Starts what all sources share. Call once, before Serve().
  void Start();

  // Attaches a further listener, at once. kExhausted: the machine has no room for its threads, and
  // the listener is closed. Any thread may call this and the following.
  Result<std::shared_ptr<Source>> Serve(kernel::NotifyListener listener);
  // Sets the first process under the filter, as `sender` says, when it becomes known. The word of
  // `sender` counts for processes of its own only, because a process that is named here is ended
  // with the container.
  void SetProcess(Source& source, unsigned pid, unsigned sender = 0);
  // Returns a descriptor that is readable when a source has hung up; then call EndSources().
  [[nodiscard]] int hang_ups() const { return hang_ups_.get(); }
  // Lets go of the sources that have hung up: their threads end, and each source is closed when its
  // last call is through. Returns true if there was one.
  bool EndSources();
  // Returns true while threads still wait at sources that have ended, where older kernels leave
  // them: ask again soon.
  [[nodiscard]] bool SendAway();
  // The state of the sources: whether there is any now, whether there ever was, and the process of
  // the first one; 0 if not known.
  struct Served {
    bool now = false;
    bool ever = false;
    unsigned first_process = 0;
  };
  [[nodiscard]] Served WhatIsServed();
  // Ends the container if its first process runs a program of the image and no proof of its filter
  // has come (kernel/proof.h). Returns true if none has come; look again soon. From the desk's
  // thread alone.
  bool LookForProof();
  // Closes a file that may be anything, without waiting for it. Ends the container if too many of
  // its files cannot be closed: no program has as many of those.
  void Discard(UniqueFd file);
  // Returns true if Discard() of so many files needs no wait for room.
  [[nodiscard]] bool CanDiscard(std::size_t files) { return reaper_->HasRoomFor(files); }

  // --- For housekeeping, from any thread.
  // Returns a descriptor that is readable when there is work without an exit or a close; reset it
  // by ResetAttention().
  [[nodiscard]] int attention() const { return attention_.get(); }
  void ResetAttention() const;
  [[nodiscard]] int exit_events() const { return callers_.exit_events(); }
  // Forgets exited processes and drops parked calls whose callers are gone.
  void DropDead();
  // Asks the driver which clients still exist and takes the others off the ledger. Returns true if
  // something went. Cheap when nothing is held. A tenant can make it take long.
  bool Reconcile();
  // Makes Reconcile() return soon, with its work undone, while `hurry`.
  void Hurry(bool hurry);
  // Returns true while the ledger holds anything.
  [[nodiscard]] bool Holding();
  // Returns true while it watches for what a thread may map at any time.
  [[nodiscard]] bool Watching();
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
  [[nodiscard]] std::map<std::string, std::uint64_t> Refused();
  // Returns a descriptor that is readable when more was refused since the last ResetRefusals().
  [[nodiscard]] int refusals() const { return refusals_.get(); }
  void ResetRefusals() const;
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
  // Take over the rest, with the descriptors. TakeOver() comes first, then Start() and
  // ServeAgain().
  void TakeOver(const ServerState& state);
  [[nodiscard]] Result<> ServeAgain(const ServerState& state);

  // Returns how long the driver took for each executed call since the last time this was asked, in
  // nanoseconds and in order, for the latency benchmark. The first call starts the recording.
  [[nodiscard]] std::vector<std::uint32_t> TakeTrace();
  // Returns the first processes of all sources, where they are known and have not been waited for.
  [[nodiscard]] std::vector<pid_t> Roots();
  // Kills all known processes of the container: the first ones, and those that have made calls.
  void KillContainer();

 private:
  using SourcePtr = std::shared_ptr<Source>;
  // The next work of a thread: to see the call through or, without one, to listen at the source.
  // Neither: nothing.
  struct Task {
    SourcePtr source;
    std::unique_ptr<Pending> call;
  };
  void Work(Task task);
  // Starts a new thread. Returns false if there is no room for one; the task is then still the
  // caller's.
  [[nodiscard]] bool StartWorker(Task& task);
  [[nodiscard]] bool CallListener(const SourcePtr& source);
  [[nodiscard]] bool RunElsewhere(std::unique_ptr<Pending>& call);
  void WatchOverdue();
  void CountListening(Source& source, int change);
  void TakeProof(const SourcePtr& source, const kernel::Notification& notification);
  [[nodiscard]] Task Listen(SourcePtr source);
  void ListenSoon();
  void StopListening(const SourcePtr& source, bool over);
  void NoteCall(const Pending* pending);
  [[nodiscard]] std::string Underway() const;
  bool Answer(const Source& source, std::uint64_t id, int error);
  [[nodiscard]] int Busy() const;
  // Returns the number of threads that could take a call, if all that may be were started.
  int Idle();
  std::unique_ptr<Pending> Prepare(const SourcePtr& source,
                                   const kernel::Notification& notification);
  std::unique_ptr<Pending> CopyIn(const SourcePtr& source, const kernel::Notification& notification,
                                  bool fresh, bool* again);
  void FindSpace(Pending& pending);
  bool TakeArgument(Pending& pending);
  [[nodiscard]] std::optional<boundary::File> Recognise(const kernel::FileIdentity& identity) const;
  // taking.cc
  struct TakenFile {
    UniqueFd file;
    boundary::File known;
  };
  [[nodiscard]] Result<std::optional<boundary::File>> LookAt(const kernel::Caller& caller,
                                                             int number) const;
  [[nodiscard]] Result<TakenFile> Take(const kernel::Caller& caller, int number);
  void Condemn(const std::string& why);
  [[nodiscard]] std::optional<std::uint32_t> RefuseSpace(const Pending& pending);
  void Admit(std::unique_ptr<Pending> pending, bool hold);
  void Run(std::unique_ptr<Pending> pending);
  bool Replayed(Pending& pending, ReplayKey& key, Image& input);
  int SeeThrough(Pending& pending, bool* copy_out);
  int Execute(Pending& pending);
  int ExecuteUvm(int file, boundary::Call& call);
  void ReconcileForCall();
  bool ReconcileAll(bool at_leisure);
  [[nodiscard]] bool CutShort() const { return at_leisure_ && hurry_.load(); }
  bool ReconcileExports();
  void TakeWitnesses(const ServerState& state,
                     const std::vector<std::shared_ptr<const kernel::Process>>& processes);
  // managed.cc
  void SeeMapping(const Source& source, const kernel::Notification& notification);
  [[nodiscard]] std::shared_ptr<const kernel::Caller> FindMapper(pid_t thread);
  [[nodiscard]] Witnesses::Number OpenWitness(const kernel::Caller& caller);
  bool BeginMapping(boundary::MmapKind kind, const boundary::ManagedBook::Claim& claim,
                    pid_t thread);
  bool ChargeMapping(const boundary::ManagedBook::Claim& claim, pid_t thread);
  void NoteThread(pid_t thread);
  bool SettleManaged(bool at_leisure = false);
  bool SettleAll(bool at_leisure);
  void DropReleased();
  [[nodiscard]] std::map<boundary::ManagedBook::Witness, boundary::ManagedBook::Seen> Ask(
      const std::vector<boundary::ManagedBook::Witness>& witnesses, bool at_leisure);
  // doubts.cc
  [[nodiscard]] std::shared_lock<std::shared_timed_mutex> KeepQuestionsOut(
      const boundary::Decision& decision);
  void SettleDoubts();
  void CleanUpMappings();
  struct KnownFile {
    std::shared_ptr<UvmFile> file;
    boundary::AddressRanges known;  // ranges in it that are not managed, by the accounting
  };
  [[nodiscard]] std::vector<KnownFile> KnownFiles();
  [[nodiscard]] std::optional<std::size_t> CountHolders(const boundary::AddressRange& range,
                                                        const std::vector<KnownFile>& files,
                                                        std::size_t* questions);
  [[nodiscard]] bool HasRange(const UvmFile& file, const boundary::AddressRange& range);
  // uvm.cc
  void KeepSpace(Pending& pending);
  bool ReconcileSpaces();
  [[nodiscard]] std::vector<std::shared_ptr<UvmFile>> LeftBehind();
  bool EndSpace(const std::shared_ptr<UvmFile>& file);
  void CallForAttention() const;
  void NoteRefusals();
  void CountRefused(const std::string& what);
  // marks.cc
  std::uint32_t FindTag(int file);
  bool TagTransfer(Pending& pending);
  bool TagTable(Pending& pending);
  void SettleTag(const Pending& pending, bool exported);
  [[nodiscard]] std::optional<Scheduler::Channels> ChannelsOf(std::size_t card, std::uint64_t seen);
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
  const bool room_ = !rm::NotCompared(config_.driver).empty();  // see boundary::MakeRoom()
  const rm::Abi& abi_;
  const std::unique_ptr<Driver> driver_;
  const Recorder recorder_;
  kernel::CallerTable callers_;
  Admission<Pending> admission_;
  std::mutex overdue_mutex_;  // taken alone, with nothing but the admission's own
  std::condition_variable anything_parked_;
  Scheduler scheduler_;  // its lock comes before state_mutex_

  std::mutex state_mutex_;  // guards ledger_, boundary_, exports_, noted_
  ledger::Ledger ledger_;
  boundary::Boundary boundary_;
  std::mutex table_mutex_;  // held while a file's table of exports is set up; before state_mutex_
  std::set<std::uint32_t> exports_;  // tags of the files that hold exported objects

  std::mutex reconcile_mutex_;  // held throughout; before all others. Guards these:
  std::condition_variable hurried_;
  std::atomic<std::uint64_t> begun_{0};  // reconciliations
  std::chrono::steady_clock::time_point may_begin_;
  bool at_leisure_ = false;  // no call waits for the reconciliation
  std::atomic<bool> hurry_{false};

  UvmFiles uvm_files_;
  std::atomic<bool> mapping_{false};  // some thread may be in a mapping that it was let into
  Witnesses witnesses_;
  std::mutex settle_mutex_;  // one settlement of managed memory at a time; before the others
  // Shared by calls that put a range into UVM, or are about to; held alone to ask what lies there.
  std::shared_timed_mutex ranges_mutex_;
  UniqueFd attention_;       // an eventfd
  UniqueFd refusals_;        // another
  std::uint64_t noted_ = 0;  // of the boundary's refusals
  UniqueFd hang_ups_;        // an epoll of the sources' listeners

  std::mutex replay_mutex_;  // guards replay_
  ReplayLog replay_;

  std::mutex trace_mutex_;  // guards trace_
  std::vector<std::uint32_t> trace_;
  std::atomic<bool> tracing_{false};

  std::atomic<int> workers_{0};
  std::mutex listen_mutex_;  // guards the rest, and what sources have besides their listeners
  std::condition_variable called_;
  std::vector<SourcePtr> sources_;            // alive
  std::vector<std::weak_ptr<Source>> ended_;  // where threads of ours still wait
  std::weak_ptr<Source> first_;               // the source that came first
  Served served_;
  bool unproved_ = config_.prove;
  std::optional<kernel::Program> first_program_;  // of the process that still has to prove its
                                                  // filter
  int listening_ = 0;                             // threads, at all sources
  int parked_ = 0;
  std::deque<Task> tasks_;        // of parked threads that have not taken them yet
  std::vector<Worker*> all_;      // workers that have begun and not ended
  bool quiet_ = false;            // no further call may begin
  std::condition_variable idle_;  // no worker is left

  std::shared_ptr<Reaper> reaper_;  // of tenants' files
  std::shared_ptr<Reaper> closer_;  // of duplicates of a GPU's files, which end their spaces
  std::atomic<bool> wary_{false};   // a tenant has put another file where a GPU's was
  std::atomic<bool> condemned_{false};
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_SERVER_H_
