#include "sim/fuse/faults.h"

#include <algorithm>

#include "rm/nv_escape.h"

namespace cgpu::sim {
namespace {

// How often a call whose caller got a signal is asked whether that signal was fatal: FUSE tells of
// the first signal alone.
constexpr std::chrono::milliseconds kKilledPoll{10};

bool Applies(const FaultRule& rule, const Call& call) {
  return (!rule.escape || *rule.escape == call.nr) &&
         (!rule.control || (call.nr == rm::NV_ESC_RM_CONTROL && *rule.control == call.control)) &&
         (!rule.cls || (call.nr == rm::NV_ESC_RM_ALLOC && *rule.cls == call.cls));
}

}  // namespace

Faults::Faults(Resume resume, IsKilled is_killed)
    : resume_(std::move(resume)), is_killed_(std::move(is_killed)), thread_([this] { Run(); }) {}

Faults::~Faults() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Faults::Add(const FaultRule& rule) {
  const MutexLock lock(mutex_);
  rules_.push_back(rule);
}

void Faults::Clear() {
  const MutexLock lock(mutex_);
  rules_.clear();
}

std::optional<FaultRule> Faults::Match(const Call& call) {
  const MutexLock lock(mutex_);
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [&call](const FaultRule& r) { return Applies(r, call); });
  if (rule == rules_.end()) {
    return std::nullopt;
  }
  const FaultRule found = *rule;
  if (--rule->count == 0) {
    rules_.erase(rule);
  }
  return found;
}

void Faults::Park(std::uint64_t ticket, const FaultRule& rule) {
  const MutexLock lock(mutex_);
  const auto wait =
      rule.effect == FaultRule::Effect::kDelay
          ? std::min<std::chrono::milliseconds>(std::chrono::milliseconds(rule.value), kMaxHold)
          : std::chrono::milliseconds(kMaxHold);
  waiting_[ticket] = Waiting{Clock::now() + wait, interrupted_early_.erase(ticket) != 0};
  changed_.NotifyAll();
}

void Faults::Interrupted(std::uint64_t ticket) {
  const MutexLock lock(mutex_);
  if (const auto found = waiting_.find(ticket); found != waiting_.end()) {
    found->second.interrupted = true;
    changed_.NotifyAll();
  } else {
    interrupted_early_.insert(ticket);
  }
}

void Faults::Forget(std::uint64_t ticket) {
  const MutexLock lock(mutex_);
  interrupted_early_.erase(ticket);
}

std::size_t Faults::Release() {
  std::vector<std::uint64_t> tickets;
  {
    const MutexLock lock(mutex_);
    std::erase_if(rules_, [](const FaultRule& r) { return r.effect == FaultRule::Effect::kHold; });
    for (const auto& [ticket, waiting] : waiting_) {
      tickets.push_back(ticket);
    }
    waiting_.clear();
  }
  changed_.NotifyAll();
  ResumeAll(tickets);
  return tickets.size();
}

bool Faults::WaitHeld(std::size_t count, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  const MutexLock lock(mutex_);
  while (waiting_.size() < count && changed_.WaitUntil(mutex_, until)) {
  }
  return waiting_.size() >= count;
}

std::size_t Faults::Held() {
  const MutexLock lock(mutex_);
  return waiting_.size();
}

std::vector<std::uint64_t> Faults::TakeDue(Clock::time_point now) {
  std::vector<std::uint64_t> due;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->second.until <= now || (it->second.interrupted && is_killed_(it->first))) {
      due.push_back(it->first);
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  return due;
}

void Faults::ResumeAll(const std::vector<std::uint64_t>& tickets) {
  for (const std::uint64_t ticket : tickets) {
    std::thread([this, ticket] { resume_(ticket); }).detach();
  }
}

void Faults::Run() {
  MutexLock lock(mutex_);
  while (!stop_) {
    const auto now = Clock::now();
    const std::vector<std::uint64_t> due = TakeDue(now);
    if (!due.empty()) {
      changed_.NotifyAll();
      lock.Unlock();
      ResumeAll(due);
      lock.Lock();
      continue;
    }
    if (waiting_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    auto until = now + kMaxHold;
    for (const auto& [ticket, waiting] : waiting_) {
      until = std::min(until, waiting.interrupted ? now + kKilledPoll : waiting.until);
    }
    (void)changed_.WaitUntil(mutex_, until);
  }
}

}  // namespace cgpu::sim
