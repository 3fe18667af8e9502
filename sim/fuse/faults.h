// Injected faults: calls that are made slow, that fail, or that are held until they are released.
#ifndef CGPU_SIM_FUSE_FAULTS_H_
#define CGPU_SIM_FUSE_FAULTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "sim/driver/driver.h"

namespace cgpu::sim {

struct FaultRule {
  // The calls that it applies to; unset: any.
  std::optional<rm::NvU8> escape;
  std::optional<rm::NvU32> control;  // of RM_CONTROL
  std::optional<rm::NvU32> cls;      // of RM_ALLOC
  // The effect. Status and errno fail the call without executing it; delay and hold execute it
  // afterwards, with the parameters as they were read before.
  enum class Effect { kDelay, kStatus, kErrno, kHold };
  Effect effect = Effect::kHold;
  std::uint32_t value = 0;  // milliseconds, status or errno
  std::uint64_t count = 1;  // calls it applies to before it is spent
};

// Waiting calls need no thread of their own. Each has a deadline, after which it goes on as if
// released; one whose caller was killed goes on at once, as the driver would have finished it.
// Thread-safe.
class Faults {
 public:
  // `resume` continues a call that waited; it is called on a thread of its own. `is_killed` asks
  // whether the caller of a waiting call was killed.
  using Resume = std::function<void(std::uint64_t ticket)>;
  using IsKilled = std::function<bool(std::uint64_t ticket)>;
  Faults(Resume resume, IsKilled is_killed);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  void Add(const FaultRule& rule);
  void Clear();
  // Returns the rule that applies to `call`, and counts it as used.
  [[nodiscard]] std::optional<FaultRule> Match(const Call& call);

  // Makes the call with this ticket wait as `rule` says.
  void Park(std::uint64_t ticket, const FaultRule& rule);
  // Hears from FUSE that a signal arrived for the caller. The call waits on if it is not a fatal
  // one. May come before the call is parked.
  void Interrupted(std::uint64_t ticket);
  // Forgets the ticket: no more is heard of it.
  void Forget(std::uint64_t ticket);
  // Drops the hold rules and lets every waiting call go on; returns how many.
  std::size_t Release();
  // Waits until `count` calls are held (delayed ones count too). Returns false at the deadline.
  [[nodiscard]] bool WaitHeld(std::size_t count, std::chrono::milliseconds timeout);
  [[nodiscard]] std::size_t Held();

  // Longest time a call is held.
  static constexpr std::chrono::seconds kMaxHold{60};

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Clock::time_point until;
    bool interrupted = false;
  };

  void Run();
  [[nodiscard]] std::vector<std::uint64_t> TakeDue(Clock::time_point now) CGPU_REQUIRES(mutex_);
  void ResumeAll(const std::vector<std::uint64_t>& tickets);

  const Resume resume_;
  const IsKilled is_killed_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<FaultRule> rules_ CGPU_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Waiting> waiting_ CGPU_GUARDED_BY(mutex_);
  std::set<std::uint64_t> interrupted_early_ CGPU_GUARDED_BY(mutex_);
  bool stop_ CGPU_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: runs while the rest lives
};

}  // namespace cgpu::sim

#endif  // CGPU_SIM_FUSE_FAULTS_H_
