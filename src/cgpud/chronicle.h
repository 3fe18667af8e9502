// Decides which events cgpud keeps (host/events.h), so that no tenant floods the ring:
//
// * Refusals of a container are merged: one event for a container's calls and one for its memory
//   on each GPU, 10 s after the one before, then after twice that, up to an hour.
// * All events that a user causes are counted against that user. A user may cause some at once, and
//   then one in a while. More are left out; how many is an event, too.
//
// Pure but for `write`. For one thread.
#ifndef CGPU_CGPUD_CHRONICLE_H_
#define CGPU_CGPUD_CHRONICLE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cgpud/audit.h"
#include "host/events.h"

namespace cgpu {

// A count of allocations that were refused at the limit of a GPU, as a shim sends it to a watcher
// (protocol/admin.h, "denied"). `what` is the GPU's UUID.
struct Denial : Refusal {
  unsigned gpu = 0;  // the host's index
  std::uint64_t limit_bytes = 0;
};

class Chronicle {
 public:
  using Write = std::function<void(const std::vector<Event>&)>;
  struct Now {
    AuditLog::Time time;
    std::uint64_t ms = 0;  // of Unix time
  };
  // Events that a user may cause at once, and the time after which one more is allowed. Root's are
  // those of all container engines.
  static constexpr unsigned kAtOnce = 200;
  static constexpr std::chrono::milliseconds kOneMore{10'000};
  static constexpr unsigned kAtOnceOfRoot = 2'000;
  static constexpr std::chrono::milliseconds kOneMoreOfRoot{1'000};

  explicit Chronicle(Write write) : write_(std::move(write)) {}

  // Takes the events that were kept before: their counts are not told again.
  void Remember(const std::vector<Event>& past);
  // Keeps an event that `user` has caused, if there may be one more.
  void Tell(Event event, unsigned user, Now now);
  // Takes counts, which Flush() tells of.
  void Take(const Refusal& refusal);
  void Take(const Denial& denial);
  void Flush(Now now);
  // Returns when to call Flush() if nothing else comes.
  [[nodiscard]] std::optional<AuditLog::Time> next() const;
  // Tells what is left to tell of a container that has ended.
  void End(const std::string& id, Now now);

 private:
  struct Bucket {
    double room = 0;
    AuditLog::Time when;
    std::uint64_t left_out = 0;
  };
  struct Container {
    std::string name;
    unsigned user = 0;
    std::map<std::string, std::uint64_t> calls;
    std::uint64_t all_calls = 0;            // their sum
    std::map<std::string, Denial> denials;  // the last ones, by UUID
  };

  void TellDue(const std::vector<DueRefusal>& all, Now now);
  [[nodiscard]] static std::chrono::milliseconds OneMore(unsigned user);
  Bucket& Fill(unsigned user, AuditLog::Time now);
  void SayLeftOut(unsigned user, Bucket& bucket, Now now, std::vector<Event>& events);

  const Write write_;
  AuditLog pace_{std::chrono::seconds(10), std::chrono::hours(1)};
  std::map<std::string, Container> containers_;  // by id
  std::map<unsigned, Bucket> buckets_;           // by user
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_CHRONICLE_H_
