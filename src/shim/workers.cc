// The server's threads: how many listen where, who takes a listener's place, when they end.
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

#include "kernel/ownership.h"
#include "shim/server.h"

namespace cgpu::shim {
namespace {

// What this thread is to the server, while it is one of its workers.
struct Worker {
  Source* source = nullptr;  // where it listens when it has nothing else to do
  bool listening = false;    // it is among those that the source counts
  pid_t thread = 0;
};
thread_local Worker self;

// False: the machine has no room for another thread's stack.
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

void Server::Start() {
  std::thread([reaper = reaper_] { reaper->Loop(); }).detach();
}

Result<std::shared_ptr<Source>> Server::Serve(kernel::NotifyListener listener) {
  auto source = std::make_shared<Source>(std::move(listener));
  const int fd = source->listener.fd();
  const std::lock_guard lock(listen_mutex_);
  epoll_event hang_up{};  // which is always reported
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
    if (source->pid != 0) {
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
      // Others may have the same listener open.
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
      for (const pid_t thread : source->waiting) {
        kernel::NotifyListener::Interrupt(thread);
      }
    }
  }
  return !ended_.empty();
}

bool Server::StartWorker(SourcePtr source, std::unique_ptr<Pending> first) {
  struct Start {
    Server* server;
    SourcePtr source;
    std::unique_ptr<Pending> first;
  };
  auto start = std::make_unique<Start>(Start{this, std::move(source), std::move(first)});
  ++workers_;
  Start* const handed = start.release();  // the new thread's, if there is one
  const bool started = RunDetached(
      [](void* argument) -> void* {
        const std::unique_ptr<Start> own(static_cast<Start*>(argument));
        own->server->Work(std::move(own->source), std::move(own->first));
        return nullptr;
      },
      handed);
  if (started) {
    return true;
  }
  start.reset(handed);
  --workers_;
  if (start->first) {
    Run(std::move(start->first));
  }
  return false;
}

// With listen_mutex_ held, as the following two. The calling thread's or another one's.
void Server::CountListening(Source& source, int change) {
  source.listening += change;
  listening_ += change;
}

int Server::Busy() const {
  return workers_.load() - listening_ - parked_;
}

// Has one more thread listen at the source: a parked one, or a new one. It counts from here on, so
// that only one is called however long it takes to come. False: there is none.
bool Server::CallListener(const SourcePtr& source) {
  if (parked_ > 0) {
    --parked_;
    calls_.push_back(source);
    called_.notify_one();
  } else if (!StartWorker(source, nullptr)) {
    return false;
  }
  CountListening(*source, 1);
  return true;
}

// Makes the calling thread one of those that listen, at `source` or, perhaps much later, where it
// is called to. Null if there are enough without it.
Server::SourcePtr Server::Listen(SourcePtr source) {
  std::unique_lock lock(listen_mutex_);
  if (!self.listening && !source->over) {
    if (source->listening < kListening) {
      CountListening(*source, 1);
    } else if (parked_ < kParked) {
      ++parked_;
      source.reset();  // it may end meanwhile
      called_.wait(lock, [&] { return !calls_.empty(); });
      source = std::move(calls_.front());
      calls_.pop_front();
    } else {
      return nullptr;
    }
    self.source = source.get();
    self.listening = true;
  }
  if (source->over) {
    CountListening(*source, self.listening ? -1 : 0);
    return nullptr;
  }
  source->waiting.push_back(self.thread);
  return source;
}

// Before an answer: the caller often gets the processor at once and makes its next call before
// this thread is back. It shall not look as if nobody listened.
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

// The calling thread got a call, or nothing. If nobody listens there now, somebody else shall. Not
// with kMaxWorkers in calls: this one is back soon, unless its call is one that gives back.
void Server::StopListening(const SourcePtr& source, bool over) {
  const std::lock_guard lock(listen_mutex_);
  source->over = source->over || over;
  std::erase(source->waiting, self.thread);
  self.listening = false;
  CountListening(*source, -1);
  if (source->listening == 0 && !source->over && Busy() < kMaxWorkers) {
    (void)CallListener(source);
  }
}

// With a call to see through, or as one that listens.
void Server::Work(SourcePtr source, std::unique_ptr<Pending> first) {
  self = {source.get(), first == nullptr, gettid()};
  if (first) {
    Run(std::move(first));
  }
  while ((source = Listen(std::move(source))) != nullptr) {
    const auto notification = source->listener.Receive();
    StopListening(source, !notification.ok() && source->listener.Ended());
    if (!notification.ok()) {
      continue;  // the caller died, or all have
    }
    if (auto pending = Prepare(source, *notification)) {
      Admit(std::move(pending), Idle() < kReserved);  // the last threads are for what gives back
    }
  }
  --workers_;
}

int Server::Idle() {
  const std::lock_guard lock(listen_mutex_);
  return kMaxWorkers - Busy();
}

}  // namespace cgpu::shim
