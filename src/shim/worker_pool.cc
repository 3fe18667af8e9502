// The pool's threads: how many listen where, which takes a listener's place, when they end.
#include "shim/worker_pool.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "boundary/names.h"
#include "os/ownership.h"
#include "os/start_time.h"
#include "rm/nv_escape.h"
#include "shim/pending.h"

namespace cgpu::shim {

// A thread of the pool's.
struct Worker {
  Source* source = nullptr;  // where it listens when it has nothing else to do
  bool listening = false;    // the source counts it among its listening threads
  pid_t thread = 0;
  // For others to see: see NoteRequest().
  std::atomic<std::uint64_t> request{0};
  std::atomic<pid_t> caller{0};
};

namespace {

thread_local Worker self;

// Returns false if the machine has no room for another thread's stack.
bool RunDetached(void* (*entry)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread{};
  const bool started = pthread_create(&thread, &attributes, entry, argument) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

WorkerPool::WorkerPool(CallHandler& handler, int proc) : handler_(handler), proc_(proc) {}

WorkerPool::~WorkerPool() = default;

// Wakes the threads that wait at the source. Call it with the lock held.
void WorkerPool::Interrupt(const Source& source) {
  for (const pid_t thread : source.waiting_) {
    source.listener.Interrupt(thread);
  }
}

void WorkerPool::InterruptAll() {
  for (const SourcePtr& source : sources_) {
    Interrupt(*source);
  }
  for (const auto& ended : ended_) {
    if (const SourcePtr source = ended.lock()) {
      Interrupt(*source);
    }
  }
}

Result<SourcePtr> WorkerPool::Serve(std::unique_ptr<os::NotifyChannel> listener) {
  auto source = std::make_shared<Source>(std::move(listener));
  const MutexLock lock(mutex_);
  while (source->listening_ < kListening && CallListener(source)) {
  }
  if (source->listening_ == 0) {
    return Error{Code::kExhausted, 0, "the machine has no room for another thread", {}};
  }
  if (!served_.ever) {
    first_ = source;
    served_.ever = true;
  }
  sources_.push_back(source);
  return source;
}

void WorkerPool::SetProcess(Source& source, unsigned pid, unsigned sender) {
  UniqueFd process(pid == 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (sender != 0 && process.valid() &&
      (!os::IsInNamespaceOf(proc_, static_cast<pid_t>(pid), sender) ||
       syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0) != 0)) {
    pid = 0;
    process.reset();
  }
  // Right as long as the process has not been waited for, as Roots() asks.
  const std::uint64_t started = os::StartTime(proc_, static_cast<pid_t>(pid)).value_or(0);
  const MutexLock lock(mutex_);
  source.pid_ = static_cast<pid_t>(pid);
  source.started_ = started;
  source.process_ = std::move(process);
  if (first_.lock().get() == &source) {
    served_.first_process = pid;
  }
}

WorkerPool::Served WorkerPool::WhatIsServed() const {
  const MutexLock lock(mutex_);
  Served served = served_;
  served.now = !sources_.empty();
  return served;
}

bool WorkerPool::IsFirst(const Source& source) const {
  const MutexLock lock(mutex_);
  return first_.lock().get() == &source;
}

std::optional<pid_t> WorkerPool::FirstProcess() const {
  const MutexLock lock(mutex_);
  const SourcePtr first = first_.lock();
  if (first == nullptr) {
    return std::nullopt;
  }
  return first->process_.valid() ? first->pid_ : 0;
}

void WorkerPool::KillRoots() {
  const MutexLock lock(mutex_);
  for (const SourcePtr& source : sources_) {
    (void)syscall(SYS_pidfd_send_signal, source->process_.get(), SIGKILL, nullptr, 0);
  }
}

std::vector<WorkerPool::Root> WorkerPool::Roots() const {
  const MutexLock lock(mutex_);
  std::vector<Root> roots;
  for (const SourcePtr& source : sources_) {
    // The number of a process that has been waited for may be another's.
    if (source->pid_ != 0 && source->process_.valid() &&
        (syscall(SYS_pidfd_send_signal, source->process_.get(), 0, nullptr, 0) == 0 ||
         errno != ESRCH)) {
      roots.push_back({source->pid_, source->started_});
    }
  }
  return roots;
}

std::vector<pollfd> WorkerPool::Awaited() const {
  const MutexLock lock(mutex_);
  std::vector<pollfd> awaited;
  awaited.reserve(sources_.size());
  for (const SourcePtr& source : sources_) {
    awaited.push_back({source->listener.fd(), 0, 0});  // hang-ups are always reported
  }
  return awaited;
}

bool WorkerPool::EndSources() {
  std::vector<pollfd> awaited = Awaited();
  if (poll(awaited.data(), awaited.size(), 0) <= 0) {
    return false;
  }
  const MutexLock lock(mutex_);
  bool ended = false;
  for (const pollfd& one : awaited) {
    if ((one.revents & POLLHUP) == 0) {
      continue;  // POLLERR: a signal came while the kernel looked
    }
    const auto found = std::ranges::find_if(
        sources_, [&](const SourcePtr& source) { return source->listener.fd() == one.fd; });
    if (found != sources_.end()) {
      (*found)->over_ = true;
      ended_.push_back(*found);
      sources_.erase(found);
      ended = true;
    }
  }
  return ended;
}

bool WorkerPool::SendAway() {
  const MutexLock lock(mutex_);
  std::erase_if(ended_, [](const std::weak_ptr<Source>& ended) {
    const SourcePtr source = ended.lock();
    return source == nullptr || source->waiting_.empty();
  });
  for (const auto& ended : ended_) {
    if (const SourcePtr source = ended.lock()) {
      Interrupt(*source);
    }
  }
  return !ended_.empty();
}

bool WorkerPool::StartWorker(Task& task) {
  struct Start {
    WorkerPool* pool;
    Task task;
  };
  auto start = std::make_unique<Start>(Start{this, std::move(task)});
  ++workers_;
  Start* const handed = start.release();  // the new thread owns it, if there is one
  const bool started = RunDetached(
      [](void* argument) -> void* {
        const std::unique_ptr<Start> own(static_cast<Start*>(argument));
        own->pool->Work(std::move(own->task));
        return nullptr;
      },
      handed);
  if (started) {
    return true;
  }
  start.reset(handed);
  --workers_;
  task = std::move(start->task);
  return false;
}

// Counts the calling thread or another one.
void WorkerPool::CountListening(Source& source, int change) {
  source.listening_ += change;
  listening_ += change;
}

int WorkerPool::Busy() const {
  return workers_.load() - listening_ - parked_;
}

// Makes one more thread listen at the source: a parked one, or a new one. It counts from here on,
// so that only one is called however long it takes to come. Returns false if there is none.
bool WorkerPool::CallListener(const SourcePtr& source) {
  Task task{source, nullptr};
  if (parked_ > 0) {
    --parked_;
    tasks_.push_back(std::move(task));
    called_.NotifyOne();
  } else if (!StartWorker(task)) {
    return false;
  }
  CountListening(*source, 1);
  return true;
}

bool WorkerPool::RunElsewhere(std::unique_ptr<ParkedCall>& call) {
  Task task{call->source, std::move(call)};
  {
    const MutexLock lock(mutex_);
    if (parked_ > 0) {
      --parked_;
      tasks_.push_back(std::move(task));
      called_.NotifyOne();
      return true;
    }
  }
  const bool started = StartWorker(task);
  call = std::move(task.call);
  return started;
}

// Makes the calling thread listen at `source` or, perhaps much later, where it is called to, unless
// it is called to a call instead. Returns no task if enough listen without it.
WorkerPool::Task WorkerPool::Listen(SourcePtr source) {
  const MutexLock lock(mutex_);
  if (!self.listening && !source->over_ && !quiet_) {
    if (source->listening_ < kListening) {
      CountListening(*source, 1);
    } else if (parked_ < kParked) {
      ++parked_;
      source.reset();  // the source may end meanwhile
      while (tasks_.empty() && !quiet_) {
        called_.Wait(mutex_);
      }
      if (tasks_.empty()) {
        --parked_;
        return {};
      }
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      self.source = task.source.get();
      if (task.call) {
        return task;
      }
      source = std::move(task.source);
    } else {
      return {};
    }
    self.source = source.get();
    self.listening = true;
  }
  if (source->over_ || quiet_) {
    CountListening(*source, self.listening ? -1 : 0);
    return {};
  }
  source->waiting_.push_back(self.thread);
  return {std::move(source), nullptr};
}

void WorkerPool::ListenSoon() {
  const MutexLock lock(mutex_);
  if (!self.listening && !self.source->over_ && self.source->listening_ < kListening) {
    CountListening(*self.source, 1);
    self.listening = true;
  }
}

bool WorkerPool::Answer(const Source& source, std::uint64_t id, int error) {
  ListenSoon();
  return source.listener.Answer(id, 0, error);
}

// Notes that the calling thread got a call, or nothing. If no thread listens there now, calls
// another one. Not with kMaxWorkers in calls: this thread is back soon, unless its call is one that
// gives back.
void WorkerPool::StopListening(const SourcePtr& source, bool over) {
  const MutexLock lock(mutex_);
  source->over_ = source->over_ || over;
  std::erase(source->waiting_, self.thread);
  self.listening = false;
  CountListening(*source, -1);
  if (source->listening_ == 0 && !source->over_ && !quiet_ && Busy() < kMaxWorkers) {
    (void)CallListener(source);
  }
}

void WorkerPool::Work(Task task) {
  self.source = task.source.get();
  self.listening = task.call == nullptr;
  self.thread = gettid();
  {
    const MutexLock lock(mutex_);
    all_.push_back(&self);
  }
  if (task.call) {
    handler_.Run(std::move(task.call));
  }
  while ((task = Listen(std::move(task.source))).source != nullptr) {
    if (task.call) {
      handler_.Run(std::move(task.call));
      continue;
    }
    const SourcePtr& source = task.source;
    const auto notification = source->listener.Receive();
    StopListening(source, !notification.ok() && source->listener.Ended());
    if (!notification.ok()) {
      continue;  // the caller died, or all callers have
    }
    handler_.Handle(source, *notification);
  }
  const MutexLock lock(mutex_);
  std::erase(all_, &self);
  if (--workers_ == 0) {
    idle_.NotifyAll();
  }
}

void WorkerPool::NoteRequest(std::uint64_t request, pid_t caller) {
  self.caller.store(caller, std::memory_order_relaxed);
  self.request.store(request, std::memory_order_relaxed);
}

std::string WorkerPool::Underway() const {
  const MutexLock lock(mutex_);
  for (const Worker* worker : all_) {
    const std::uint64_t request = worker->request.load(std::memory_order_relaxed);
    if (request == 0) {
      continue;
    }
    const auto nr = static_cast<std::uint32_t>(request >> 32);
    const auto command = static_cast<std::uint32_t>(request);
    std::string name = nr == 0 ? boundary::UvmName(command) : boundary::EscapeName(nr);
    if (nr == rm::NV_ESC_RM_CONTROL) {
      name += " " + boundary::ControlName(command);
    } else if (nr == rm::NV_ESC_RM_ALLOC) {
      name += " " + boundary::ClassName(command);
    }
    return name + " of process " + std::to_string(worker->caller.load(std::memory_order_relaxed));
  }
  return "a call that is not yet, or no longer, in the driver";
}

bool WorkerPool::Quiesce(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kAgain{1};  // a thread may not have been there yet
  const auto until = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(mutex_);
  quiet_ = true;
  called_.NotifyAll();
  while (workers_.load() != 0 && std::chrono::steady_clock::now() < until) {
    InterruptAll();
    (void)idle_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kAgain);
  }
  return workers_.load() == 0;
}

void WorkerPool::Resume() {
  const MutexLock lock(mutex_);
  quiet_ = false;
  for (const SourcePtr& source : sources_) {
    while (source->listening_ < kListening && CallListener(source)) {
    }
  }
}

void WorkerPool::Save(ServerState& state) const {
  const MutexLock lock(mutex_);
  const SourcePtr first = first_.lock();
  for (const SourcePtr& source : sources_) {
    state.sources.push_back(
        {source->listener.fd(), source->pid_, source->process_.get(), source == first});
  }
  state.served = served_.ever;
  state.first_process = served_.first_process;
}

void WorkerPool::Load(const ServerState& state) {
  const MutexLock lock(mutex_);
  served_.ever = state.served;
  served_.first_process = state.first_process;
}

Result<> WorkerPool::ServeAgain(const ServerState& state) {
  for (const SourceState& one : state.sources) {
    CGPU_ASSIGN_OR_RETURN(auto listener, os::NotifyListener::Make(UniqueFd(one.listener)));
    CGPU_ASSIGN_OR_RETURN(const auto source,
                          Serve(std::make_unique<os::NotifyListener>(std::move(listener))));
    const std::uint64_t started = os::StartTime(proc_, one.pid).value_or(0);
    const MutexLock lock(mutex_);
    source->pid_ = one.pid;
    source->started_ = started;
    source->process_.reset(one.process);
    if (one.first) {
      first_ = source;
    }
  }
  return {};
}

bool WorkerPool::NearlyFull() const {
  const MutexLock lock(mutex_);
  return kMaxWorkers - Busy() < kReserved;
}

}  // namespace cgpu::shim
