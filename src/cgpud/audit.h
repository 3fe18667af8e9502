// Paces what is said of the things that containers are refused, so that a tenant cannot flood a log
// or the events: each thing is said when it is first seen, then at most once in an interval and
// only if its count has grown, and at last when the container has ended. Pure.
//
// cgpud's log has a line for each container and name of a call that was refused at the boundary,
//
//   audit container=ID engine=ENGINE_ID refused=NAME count=N
//
// ENGINE_ID is - for a command of `cgpu run`. N counts all of them since the container began, so
// that no lines must be added up.
#ifndef CGPU_CGPUD_AUDIT_H_
#define CGPU_CGPUD_AUDIT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"

namespace cgpu {

// A count of refused calls, as a shim sends it to a watcher (protocol/admin.h, "refused").
struct Refusal {
  std::string container;  // its id
  std::string engine_id;
  std::string what;
  std::uint64_t count = 0;
  std::string name = {};   // the container's
  unsigned user = 0;       // uid of the container's user
  bool supervised = true;  // false: it is of root's own `cgpu run`
};

// A count that is due to be said.
struct DueRefusal : Refusal {
  std::uint64_t grown = 0;            // since it was last said
  std::chrono::milliseconds over{0};  // time since then; 0: it was never said
};

// Returns the fields of a line of the log, whose message is "audit".
[[nodiscard]] LogFields AuditFields(const Refusal& refusal);

class AuditLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Names of one container that are said by themselves, since a tenant can think up many. The rest
  // is counted as "others".
  static constexpr std::size_t kMaxNames = 64;
  // Names that are counted in the rest. A shim sends no more (boundary::Refusals::kMost).
  static constexpr std::size_t kMaxOthers = 1024;

  // The interval of a thing that goes on is doubled each time, up to `longest`.
  AuditLog(std::chrono::seconds interval, std::chrono::seconds longest)
      : interval_(interval), longest_(longest) {}

  // Takes a count. Counts never shrink.
  void Take(const Refusal& refusal);
  // Takes a count that was said before, by another program.
  void TakeSaid(const Refusal& refusal);
  // Returns what to say at `now`, and the time of what comes next if nothing else is taken.
  [[nodiscard]] std::vector<DueRefusal> Due(Time now);
  [[nodiscard]] std::optional<Time> next() const;
  // Ends the container; returns what is not yet said.
  [[nodiscard]] std::vector<DueRefusal> End(const std::string& id, Time now);

 private:
  struct Name {
    std::uint64_t count = 0;
    std::uint64_t written = 0;
    std::optional<Time> when;
    std::chrono::seconds interval{0};
  };
  struct Container {
    std::string engine_id;
    std::map<std::string, Name> names;
    std::map<std::string, std::uint64_t> others;  // counts
  };

  [[nodiscard]] DueRefusal Say(const std::string& id, const Container& container,
                               const std::string& what, Name& name, Time now) const;
  [[nodiscard]] static std::optional<Time> When(const Name& name);

  std::chrono::seconds interval_;
  std::chrono::seconds longest_;
  std::map<std::string, Container> containers_;  // by id
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_AUDIT_H_
