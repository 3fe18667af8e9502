// The server's threads: how many listen where, which takes a listener's place, when they end.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <thread>
#include <utility>

#include "boundary/names.h"
#include "kernel/ownership.h"
#include "rm/nv_escape.h"
#include "shim/server.h"

namespace cgpu::shim {
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

// Call it with listen_mutex_ held.
void InterruptWaiting(const Source& source) {
  for (const pid_t thread : source.waiting) {
    kernel::NotifyListener::Interrupt(thread);
  }
}

}  // namespace

void Server::Start() {
  for (const auto& reaper : {reaper_, closer_}) {
    std::thread([reaper] { reaper->Loop(); }).detach();
  }
  std::thread(&Server::WatchOverdue, this).detach();
  scheduler_.Resume();
}

Result<std::shared_ptr<Source>> Server::Serve(kernel::NotifyListener listener) {
  auto source = std::make_shared<Source>(std::move(listener));
  const int fd = source->listener.fd();
  const std::lock_guard lock(listen_mutex_);
  epoll_event hang_up{};  // hang-ups are always reported
  hang_up.data.fd = fd;
  if (epoll_ctl(hang_ups_.get(), EPOLL_CTL_ADD, fd, &hang_up) != 0) {
    return ErrnoError(Code::kExhausted, errno, "cannot watch a seccomp listener");
  }
  while (source->listening < kListening && CallListener(source)) {
  }
  if (source->listening == 0) {
    (void)epoll_ctl(hang_ups_.get(), EPOLL_CTL_DEL, fd, nullptr);
    return Error{Code::kExhausted, 0, "the machine has no room for another thread", {}};
  }
  if (!served_.ever) {
    first_ = source;
    served_.ever = true;
  }
  sources_.push_back(source);
  return source;
}

void Server::SetProcess(Source& source, unsigned pid, unsigned sender) {
  UniqueFd process(pid == 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (sender != 0 && process.valid() &&
      (!kernel::IsInNamespaceOf(callers_.proc_fd(), static_cast<pid_t>(pid), sender) ||
       syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0) != 0)) {
    pid = 0;
    process.reset();
  }
  const std::lock_guard lock(listen_mutex_);
  source.pid = static_cast<pid_t>(pid);
  source.process = std::move(process);
  if (first_.lock().get() == &source) {
    served_.first_process = pid;
  }
}

Server::Served Server::WhatIsServed() {
  const std::lock_guard lock(listen_mutex_);
  served_.now = !sources_.empty();
  return served_;
}

void Server::KillContainer() {
  for (const auto& process : callers_.Processes()) {
    (void)syscall(SYS_pidfd_send_signal, process->pidfd.get(), SIGKILL, nullptr, 0);
  }
  const std::lock_guard lock(listen_mutex_);
  for (const SourcePtr& source : sources_) {
    (void)syscall(SYS_pidfd_send_signal, source->process.get(), SIGKILL, nullptr, 0);
  }
}

std::vector<pid_t> Server::Roots() {
  const std::lock_guard lock(listen_mutex_);
  std::vector<pid_t> roots;
  for (const SourcePtr& source : sources_) {
    // The number of a process that has been waited for may be another's.
    if (source->pid != 0 && source->process.valid() &&
        (syscall(SYS_pidfd_send_signal, source->process.get(), 0, nullptr, 0) == 0 ||
         errno != ESRCH)) {
      roots.push_back(source->pid);
    }
  }
  return roots;
}

bool Server::EndSources() {
  const std::lock_guard lock(listen_mutex_);
  bool ended = false;
  std::array<epoll_event, 16> events{};
  int count = 0;
  while ((count = epoll_wait(hang_ups_.get(), events.data(), events.size(), 0)) > 0) {
    for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(count))) {
      const int fd = event.data.fd;
      // Other processes may have the same listener open.
      (void)epoll_ctl(hang_ups_.get(), EPOLL_CTL_DEL, fd, nullptr);
      const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const SourcePtr& one) {
        return one->listener.fd() == fd;
      });
      if (found != sources_.end()) {
        (*found)->over = true;
        ended_.push_back(*found);
        sources_.erase(found);
        ended = true;
      }
    }
  }
  return ended;
}

bool Server::SendAway() {
  const std::lock_guard lock(listen_mutex_);
  std::erase_if(ended_, [](const std::weak_ptr<Source>& ended) {
    const SourcePtr source = ended.lock();
    return source == nullptr || source->waiting.empty();
  });
  for (const auto& ended : ended_) {
    if (const SourcePtr source = ended.lock()) {
      InterruptWaiting(*source);
    }
  }
  return !ended_.empty();
}

bool Server::StartWorker(Task& task) {
  struct Start {
    Server* server;
    Task task;
  };
  auto start = std::make_unique<Start>(Start{this, std::move(task)});
  ++workers_;
  Start* const handed = start.release();  // the new thread owns it, if there is one
  const bool started = RunDetached(
      [](void* argument) -> void* {
        const std::unique_ptr<Start> own(static_cast<Start*>(argument));
        own->server->Work(std::move(own->task));
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

// Counts the calling thread or another one. Call it with listen_mutex_ held, as the following two.
void Server::CountListening(Source& source, int change) {
  source.listening += change;
  listening_ += change;
}

int Server::Busy() const {
  return workers_.load() - listening_ - parked_;
}

// Makes one more thread listen at the source: a parked one, or a new one. It counts from here on,
// so that only one is called however long it takes to come. Returns false if there is none.
bool Server::CallListener(const SourcePtr& source) {
  Task task{source, nullptr};
  if (parked_ > 0) {
    --parked_;
    tasks_.push_back(std::move(task));
    called_.notify_one();
  } else if (!StartWorker(task)) {
    return false;
  }
  CountListening(*source, 1);
  return true;
}

// Makes another thread see the call through: a parked one, or a new one. Returns false if there is
// neither; the call is then still the caller's.
bool Server::RunElsewhere(std::unique_ptr<Pending>& call) {
  Task task{call->source, std::move(call)};
  {
    const std::lock_guard lock(listen_mutex_);
    if (parked_ > 0) {
      --parked_;
      tasks_.push_back(std::move(task));
      called_.notify_one();
      return true;
    }
  }
  const bool started = StartWorker(task);
  call = std::move(task.call);
  return started;
}

// Runs the thread that lets calls continue beside those that take long. It waits while nothing is
// parked.
void Server::WatchOverdue() {
  constexpr std::chrono::milliseconds kLong{2};
  while (true) {
    {
      std::unique_lock lock(overdue_mutex_);
      anything_parked_.wait(lock, [this] { return admission_.parked() != 0; });
    }
    std::this_thread::sleep_for(kLong);
    for (auto& call : admission_.Overdue()) {
      if (!RunElsewhere(call)) {
        admission_.PutBack(std::move(call));
      }
    }
  }
}

// Makes the calling thread listen at `source` or, perhaps much later, where it is called to, unless
// it is called to a call instead. Returns no task if enough listen without it.
Server::Task Server::Listen(SourcePtr source) {
  std::unique_lock lock(listen_mutex_);
  if (!self.listening && !source->over && !quiet_) {
    if (source->listening < kListening) {
      CountListening(*source, 1);
    } else if (parked_ < kParked) {
      ++parked_;
      source.reset();  // the source may end meanwhile
      called_.wait(lock, [&] { return !tasks_.empty() || quiet_; });
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
  if (source->over || quiet_) {
    CountListening(*source, self.listening ? -1 : 0);
    return {};
  }
  source->waiting.push_back(self.thread);
  return {std::move(source), nullptr};
}

// Call it before an answer: the caller often gets the processor at once and makes its next call
// before this thread is back. Then it must not seem that no thread listens.
void Server::ListenSoon() {
  const std::lock_guard lock(listen_mutex_);
  if (!self.listening && !self.source->over && self.source->listening < kListening) {
    CountListening(*self.source, 1);
    self.listening = true;
  }
}

bool Server::Answer(const Source& source, std::uint64_t id, int error) {
  ListenSoon();
  return source.listener.Answer(id, 0, error);
}

// Notes that the calling thread got a call, or nothing. If no thread listens there now, calls
// another one. Not with kMaxWorkers in calls: this thread is back soon, unless its call is one that
// gives back.
void Server::StopListening(const SourcePtr& source, bool over) {
  const std::lock_guard lock(listen_mutex_);
  source->over = source->over || over;
  std::erase(source->waiting, self.thread);
  self.listening = false;
  CountListening(*source, -1);
  if (source->listening == 0 && !source->over && !quiet_ && Busy() < kMaxWorkers) {
    (void)CallListener(source);
  }
}

void Server::Work(Task task) {
  self.source = task.source.get();
  self.listening = task.call == nullptr;
  self.thread = gettid();
  {
    const std::lock_guard lock(listen_mutex_);
    all_.push_back(&self);
  }
  if (task.call) {
    Run(std::move(task.call));
  }
  while ((task = Listen(std::move(task.source))).source != nullptr) {
    if (task.call) {
      Run(std::move(task.call));
      continue;
    }
    const SourcePtr& source = task.source;
    const auto notification = source->listener.Receive();
    StopListening(source, !notification.ok() && source->listener.Ended());
    if (!notification.ok()) {
      continue;  // the caller died, or all callers have
    }
    if (auto pending = Prepare(source, *notification)) {
      Admit(std::move(pending), Idle() < kReserved);  // the last threads are for calls that give
                                                      // back
    }
  }
  const std::lock_guard lock(listen_mutex_);
  std::erase(all_, &self);
  if (--workers_ == 0) {
    idle_.notify_all();
  }
}

// Notes the request that the calling thread is about to make to the driver, for Underway(). Null:
// it is back.
void Server::NoteCall(const Pending* pending) {
  std::uint64_t asked = 0;
  if (pending != nullptr) {
    const boundary::Call& call = pending->call;
    asked = call.uvm_request != 0 ? call.uvm_request : std::uint64_t{call.nr} << 32 | call.command;
    self.caller.store(pending->notification.tid, std::memory_order_relaxed);
  }
  self.asked.store(asked, std::memory_order_relaxed);
}

std::string Server::Underway() const {
  for (const Worker* worker : all_) {
    const std::uint64_t asked = worker->asked.load(std::memory_order_relaxed);
    if (asked == 0) {
      continue;
    }
    const auto nr = static_cast<std::uint32_t>(asked >> 32);
    const auto command = static_cast<std::uint32_t>(asked);
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

Result<> Server::Quiesce(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kAgain{1};  // a thread may not have been there yet
  const auto until = std::chrono::steady_clock::now() + patience;
  scheduler_.LetThrough();
  std::unique_lock lock(listen_mutex_);
  quiet_ = true;
  called_.notify_all();
  while (workers_.load() != 0 && std::chrono::steady_clock::now() < until) {
    for (const SourcePtr& source : sources_) {
      InterruptWaiting(*source);
    }
    for (const auto& ended : ended_) {
      if (const SourcePtr source = ended.lock()) {
        InterruptWaiting(*source);
      }
    }
    idle_.wait_for(lock, kAgain);
  }
  if (workers_.load() == 0 && reaper_->Idle() && closer_->Idle()) {
    lock.unlock();
    scheduler_.Pause();
    driver_->FreeDevices();
    return {};
  }
  const std::string busy =
      workers_.load() != 0 ? Underway() : "the close of a file that does not answer";
  lock.unlock();
  Resume();
  return Error{Code::kConflict, 0, "it is in " + busy, "try again"};
}

void Server::Resume() {
  scheduler_.Resume();
  const std::lock_guard lock(listen_mutex_);
  quiet_ = false;
  for (const SourcePtr& source : sources_) {
    while (source->listening < kListening && CallListener(source)) {
    }
  }
}

int Server::Idle() {
  const std::lock_guard lock(listen_mutex_);
  return kMaxWorkers - Busy();
}

}  // namespace cgpu::shim
