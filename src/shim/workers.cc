// The server's threads: how many listen, who takes a listener's place, when they end.
#include <pthread.h>

#include <thread>

#include "shim/server.h"

namespace cgpu::shim {
namespace {

// Whether this thread is among Server::listening_.
thread_local bool counts_as_listening = false;

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

void Server::Start(kernel::NotifyListener listener, unsigned first_pid) {
  first_pid_ = static_cast<pid_t>(first_pid);
  listener_.emplace(std::move(listener));
  std::thread([reaper = reaper_] { reaper->Loop(); }).detach();
  const std::lock_guard lock(listen_mutex_);
  for (int i = 0; i < kListening; ++i) {
    listening_ += StartWorker(nullptr) ? 1 : 0;
  }
}

bool Server::StartWorker(std::unique_ptr<Pending> first) {
  struct Start {
    Server* server;
    std::unique_ptr<Pending> first;
  };
  auto start = std::make_unique<Start>(Start{this, std::move(first)});
  ++workers_;
  Start* const handed = start.release();  // the new thread's, if there is one
  const bool started = RunDetached(
      [](void* argument) -> void* {
        const std::unique_ptr<Start> own(static_cast<Start*>(argument));
        own->server->Work(std::move(own->first));
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

// Makes the calling thread one of those that listen. Returns true when it is one, perhaps much
// later; false if there are enough without it.
bool Server::Listen() {
  std::unique_lock lock(listen_mutex_);
  if (counts_as_listening) {
    return true;
  }
  if (listening_ >= kListening) {
    if (parked_ >= kParked) {
      return false;
    }
    ++parked_;
    called_.wait(lock, [&] { return calls_ > 0; });
    --calls_;
  } else {
    ++listening_;
  }
  counts_as_listening = true;
  return true;
}

// Before an answer: the caller often gets the processor at once and makes its next call before
// this thread is back. It shall not look as if nobody listened.
void Server::ListenSoon() {
  const std::lock_guard lock(listen_mutex_);
  if (!counts_as_listening && listening_ < kListening) {
    ++listening_;
    counts_as_listening = true;
  }
}

bool Server::Answer(std::uint64_t id, int error) {
  ListenSoon();
  return listener_->Answer(id, 0, error);
}

// The calling thread got a call. If nobody listens now, somebody else shall: who counts as
// listening from here on, so that only one is called however long it takes to come.
void Server::StopListening() {
  const std::lock_guard lock(listen_mutex_);
  counts_as_listening = false;
  if (--listening_ > 0) {
    return;
  }
  if (parked_ > 0) {
    --parked_;
    ++calls_;
    ++listening_;
    called_.notify_one();
  } else if (workers_.load() < kMaxWorkers && StartWorker(nullptr)) {
    ++listening_;
  }
}

// With a call to see through, or as one that listens.
void Server::Work(std::unique_ptr<Pending> first) {
  counts_as_listening = first == nullptr;
  if (first) {
    Run(std::move(first));
  }
  while (Listen()) {
    const auto notification = listener_->Receive();
    if (!notification.ok() && listener_->Ended()) {
      break;  // nobody is left to listen for; housekeeping ends the process
    }
    StopListening();
    if (!notification.ok()) {
      continue;  // the caller died
    }
    if (auto pending = Prepare(*notification)) {
      Admit(std::move(pending), Idle() < kReserved);  // the last threads are for what gives back
    }
  }
  --workers_;
}

int Server::Idle() {
  const std::lock_guard lock(listen_mutex_);
  return kMaxWorkers - workers_.load() + listening_ + parked_;
}

}  // namespace cgpu::shim
