#include "shim/housekeeping.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>

#include "shim/scheduler.h"

namespace cgpu::shim {
namespace {

constexpr std::uint64_t kUsPerMs = 1'000;
// How often to look for what nobody reports: the close of a client's file, which the shim keeps
// open, and what others map of a file of nvidia-uvm.
constexpr int kUnreportedMs = 1'000;
// Times as long as such a look took, until the next one.
constexpr std::uint64_t kRestForOthers = 10;
constexpr std::uint64_t kMostRestUs = 10'000'000;

UniqueFd MakeEvent() {
  return UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

bool Reset(const UniqueFd& event) {
  eventfd_t count = 0;
  return eventfd_read(event.get(), &count) == 0;
}

}  // namespace

Result<std::unique_ptr<Housekeeping>> Housekeeping::Make(Server& server, UniqueFd closes) {
  UniqueFd inotify =
      closes.valid() ? std::move(closes) : UniqueFd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  UniqueFd called = MakeEvent();
  UniqueFd rested = MakeEvent();
  if (!inotify.valid() || !called.valid() || !rested.valid()) {
    return ErrnoError(Code::kUnavailable, errno, "cannot watch for closes");
  }
  for (const std::string& path : server.config().watches) {
    if (inotify_add_watch(inotify.get(), path.c_str(), IN_CLOSE) < 0) {
      return ErrnoError(Code::kUnavailable, errno, "cannot watch " + path);
    }
  }
  return std::unique_ptr<Housekeeping>(
      new Housekeeping(server, std::move(inotify), std::move(called), std::move(rested)));
}

Result<> Housekeeping::Start() {
  rounds_.Hasten(NowUs());
  try {
    std::thread(&Housekeeping::Run, this).detach();
  } catch (const std::system_error& error) {
    return ErrnoError(Code::kExhausted, error.code().value(), "cannot start a thread");
  }
  return {};
}

void Housekeeping::Hasten() {
  (void)eventfd_write(called_.get(), 1);
}

void Housekeeping::SetOver(bool over) {
  if (over_.exchange(over) != over) {
    Hasten();
  }
}

bool Housekeeping::Rested() {
  return Reset(rested_);
}

bool Housekeeping::Pause(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  {
    const MutexLock lock(mutex_);
    paused_ = true;
    server_.reconciler().SetHurry(true);
    while (looking_ && changed_.WaitUntil(mutex_, until)) {
    }
    if (!looking_) {
      return true;
    }
  }
  Resume();
  return false;
}

void Housekeeping::Resume() {
  const MutexLock lock(mutex_);
  server_.reconciler().SetHurry(false);
  paused_ = false;
  changed_.NotifyAll();
  Hasten();  // a look may have been cut short
}

void Housekeeping::Run() {
  while (true) {
    Wait();
    const bool look = rounds_.due_us() && *rounds_.due_us() <= NowUs();
    const bool others = server_.managed().MayBeShared() && others_due_us_ <= NowUs();
    if (!look && !others) {
      continue;
    }
    {
      const MutexLock lock(mutex_);
      while (paused_) {
        changed_.Wait(mutex_);
      }
      looking_ = true;
    }
    if (look) {
      Look();
    }
    if (others) {
      const std::uint64_t began = NowUs();
      server_.managed().LookForOthers();
      const std::uint64_t now = NowUs();
      // Nobody knows the moment beforehand, and a container that makes looks slow puts them off a
      // little only.
      const std::uint64_t pause = (kUnreportedMs / 2 + now % kUnreportedMs) * kUsPerMs;
      others_due_us_ = now + std::clamp(kRestForOthers * (now - began), pause, kMostRestUs);
    }
    const MutexLock lock(mutex_);
    looking_ = false;
    changed_.NotifyAll();
  }
}

// Waits until a look is due or something is reported. Reports are ignored while a look is due in a
// moment anyway, so a process that closes files all the time wakes nobody up.
void Housekeeping::Wait() {
  enum { kCalled, kAttention, kExits, kFiles, kInotify, kCount };
  std::array<pollfd, kCount> polled{};
  const auto due = rounds_.due_us();
  const std::uint64_t now = NowUs();
  polled[kCalled] = {called_.get(), POLLIN, 0};
  polled[kAttention] = {told_ ? -1 : server_.managed().attention(), POLLIN, 0};
  polled[kExits] = {told_ ? -1 : server_.exit_events(), POLLIN, 0};
  polled[kFiles] = {server_.client_files().began(), POLLIN, 0};
  polled[kInotify] = {rounds_.Hears(now) ? inotify_.get() : -1, POLLIN, 0};
  const std::uint64_t wait_us = due ? *due - std::min(*due, now) : 0;
  const auto wait_ms = static_cast<int>((wait_us + kUsPerMs - 1) / kUsPerMs);
  ClientFiles& files = server_.client_files();
  const bool sees =
      (!files.Empty() || server_.managed().MayBeShared()) && (!due || wait_ms > kUnreportedMs);
  if (poll(polled.data(), polled.size(), sees ? kUnreportedMs : (due ? wait_ms : -1)) <= 0) {
    if (sees && !files.Empty() && !files.InUse()) {
      rounds_.Hasten(NowUs());
    }
    return;
  }
  if (polled[kCalled].revents != 0) {
    (void)Reset(called_);
  }
  if (polled[kFiles].revents != 0) {
    files.Reset();
  }
  told_ = told_ || polled[kAttention].revents != 0 || polled[kExits].revents != 0;
  if (told_ || polled[kCalled].revents != 0) {
    rounds_.Hasten(NowUs());
  }
  if (polled[kInotify].revents != 0 && DrainInotify()) {
    rounds_.Closed(NowUs(), server_.reconciler().Holding());
  }
}

void Housekeeping::Look() {
  Rounds::Look look;
  look.began_us = NowUs();
  if (DrainInotify()) {
    rounds_.Closed(look.began_us, true);
  }
  told_ = false;
  server_.managed().ResetAttention();
  server_.DropDead();
  look.found = server_.reconciler().Reconcile();
  look.holding = server_.reconciler().Holding();
  look.over = over_.load();
  look.watching = server_.managed().Watching();
  look.ended_us = NowUs();
  rounds_.Done(look);
  if (look.over && !look.holding) {
    (void)eventfd_write(rested_.get(), 1);
  }
}

// Returns true if there was something.
bool Housekeeping::DrainInotify() const {
  alignas(inotify_event) char buffer[4096];
  bool any = false;
  while (read(inotify_.get(), buffer, sizeof(buffer)) > 0) {
    any = true;
  }
  return any;
}

}  // namespace cgpu::shim
