// The threads that handle a container's calls, and the listeners (source.h) that calls come from.
//
// Workers listen for calls, each at one source. The worker that gets a call handles it itself. When
// none is left listening there, another takes its place: an idle one, or a new one. The kernel
// wakes every listening thread for each call, so no more listen than it takes to have one while
// another begins. At most kMaxWorkers are in calls, and the last kReserved of them take only calls
// that give back. Beyond those, every source has one that takes such calls. So the number of
// threads is limited by the calls and the sources, and no source waits for another's.
//
// Thread-safe. It has one lock, which is held shortly, and under which no other is taken.
#ifndef CGPU_SHIM_WORKER_POOL_H_
#define CGPU_SHIM_WORKER_POOL_H_

#include <poll.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "os/notify.h"
#include "shim/handover.h"
#include "shim/source.h"

namespace cgpu::shim {

struct ParkedCall;
struct Worker;

using SourcePtr = std::shared_ptr<Source>;

// Handles calls, on threads of the pool.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  // Handles a call that has just come.
  virtual void Handle(const SourcePtr& source, const os::Notification& notification) = 0;
  // Continues with a call that has waited for others.
  virtual void Run(std::unique_ptr<ParkedCall> call) = 0;
};

class WorkerPool {
 public:
  static constexpr int kMaxWorkers = 256;
  static constexpr int kReserved = 2;
  static constexpr int kListening = 2;  // at each source
  static constexpr int kParked = 4;     // further idle ones end themselves

  // `handler` outlives the pool's threads; `proc`: an open /proc, which outlives the pool.
  WorkerPool(CallHandler& handler, int proc);
  ~WorkerPool();

  // Attaches a further listener, at once. kExhausted: the machine has no room for its threads, and
  // the listener is closed.
  Result<SourcePtr> Serve(std::unique_ptr<os::NotifyChannel> listener);
  // Sets the first process under the filter, as `sender` says, when it becomes known. The word of
  // `sender` counts for processes of its own only, because a process that is named here is ended
  // with the container.
  void SetProcess(Source& source, unsigned pid, unsigned sender);
  // Returns what to poll(2) for: a source has hung up when it comes; then call EndSources(). That
  // is an array and no epoll, since the kernel counts an epoll's watches for a uid, and others may
  // take them all.
  [[nodiscard]] std::vector<pollfd> Awaited() const;
  // On the thread that calls Serve(). Lets go of the sources that have hung up: their threads end,
  // and each source is closed when its last call is through. Returns true if there was one.
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
  [[nodiscard]] Served WhatIsServed() const;
  // Returns true for the source that came first.
  [[nodiscard]] bool IsFirst(const Source& source) const;
  // Returns the first process of the source that came first, by its number; 0: not known. Nothing
  // if that source is gone.
  [[nodiscard]] std::optional<pid_t> FirstProcess() const;
  // The first process of a source.
  struct Root {
    pid_t pid = 0;
    std::uint64_t started = 0;  // os/start_time.h; 0: not known
  };
  // Returns the first processes of all sources, where they are known and have not been waited for.
  [[nodiscard]] std::vector<Root> Roots() const;
  void KillRoots();

  // Makes another thread run the call: a parked one, or a new one. Returns false if there is
  // neither; the call is then still the caller's.
  [[nodiscard]] bool RunElsewhere(std::unique_ptr<ParkedCall>& call);

  // Returns true if nearly all threads are in calls: only calls that give back should begin.
  [[nodiscard]] bool NearlyFull() const;

  // --- For the handler, on a thread of the pool.
  //
  // Call it before an answer: the caller often gets the processor at once and makes its next call
  // before this thread is back. Then it must not seem that no thread listens.
  void ListenSoon();
  // Ends the call, after ListenSoon(). Returns as the channel.
  bool Answer(const Source& source, std::uint64_t id, int error);
  // Notes the request that the thread is about to make to the driver for `caller`: the escape above
  // 32 bits of what it selects, or nvidia-uvm's request. 0: it is back.
  static void NoteRequest(std::uint64_t request, pid_t caller);

  // --- For a hot upgrade.
  //
  // Lets no further call begin and waits until none is under way; then no thread works. Returns
  // false if that took longer than `timeout`; call Resume() then.
  [[nodiscard]] bool Quiesce(std::chrono::milliseconds timeout);
  void Resume();
  // Names a call that is in the driver, for the user.
  [[nodiscard]] std::string Underway() const;
  // Writes what a successor needs, and reads it.
  void Save(ServerState& state) const;
  void Load(const ServerState& state);
  [[nodiscard]] Result<> ServeAgain(const ServerState& state);

 private:
  // The next work of a thread: to run the call or, without one, to listen at the source. Neither:
  // nothing.
  struct Task {
    SourcePtr source;
    std::unique_ptr<ParkedCall> call;
  };
  void Work(Task task);
  // Starts a new thread. Returns false if there is no room for one; the task is then still the
  // caller's.
  [[nodiscard]] bool StartWorker(Task& task);
  [[nodiscard]] bool CallListener(const SourcePtr& source) CGPU_REQUIRES(mutex_);
  static void Interrupt(const Source& source);
  void InterruptAll() CGPU_REQUIRES(mutex_);
  void CountListening(Source& source, int change) CGPU_REQUIRES(mutex_);
  [[nodiscard]] Task Listen(SourcePtr source);
  void StopListening(const SourcePtr& source, bool over);
  [[nodiscard]] int Busy() const CGPU_REQUIRES(mutex_);

  CallHandler& handler_;
  const int proc_;
  std::atomic<int> workers_{0};

  mutable Mutex mutex_;  // guards the rest, and what sources have besides their listeners
  CondVar called_;
  std::vector<SourcePtr> sources_ CGPU_GUARDED_BY(mutex_);            // alive
  std::vector<std::weak_ptr<Source>> ended_ CGPU_GUARDED_BY(mutex_);  // threads still wait there
  std::weak_ptr<Source> first_ CGPU_GUARDED_BY(mutex_);               // the source that came first
  Served served_ CGPU_GUARDED_BY(mutex_);
  int listening_ CGPU_GUARDED_BY(mutex_) = 0;  // threads, at all sources
  int parked_ CGPU_GUARDED_BY(mutex_) = 0;
  std::deque<Task> tasks_ CGPU_GUARDED_BY(mutex_);    // parked threads have not taken them yet
  std::vector<Worker*> all_ CGPU_GUARDED_BY(mutex_);  // workers that have begun and not ended
  bool quiet_ CGPU_GUARDED_BY(mutex_) = false;        // no further call may begin
  CondVar idle_;                                      // no worker is left
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_WORKER_POOL_H_
