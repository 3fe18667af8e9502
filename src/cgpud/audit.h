// Writes which driver calls of containers were refused at the boundary, for cgpud's log: a line for
// each container and name of a call,
//
//   audit container=ID engine=ENGINE_ID refused=NAME count=N
//
// ENGINE_ID is - for a command of `cgpu run`. N counts all of them since the container began, so
// that no lines must be added up. A space in a word is %20, as in base/words.h. A name is
// written when it is first seen, then at most once in an interval and only if its count has grown,
// and at last when the container has ended. Pure.
#ifndef CGPU_CGPUD_AUDIT_H_
#define CGPU_CGPUD_AUDIT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cgpu {

// A count of refused calls, as a shim sends it to a watcher (protocol/admin.h, "refused").
struct Refusal {
  std::string container;  // its id
  std::string engine_id;
  std::string what;
  std::uint64_t count = 0;
};

class AuditLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Names of one container that have lines of their own, since a tenant can think up many. The rest
  // is counted as "others".
  static constexpr std::size_t kMaxNames = 64;
  // Names that are counted in the rest. A shim sends no more (boundary::Refusals::kMost).
  static constexpr std::size_t kMaxOthers = 1024;

  explicit AuditLog(std::chrono::seconds interval) : interval_(interval) {}

  // Takes a count. Counts never shrink.
  void Take(const Refusal& refusal);
  // Returns the lines to write at `now`, and the time of the next ones if nothing else comes.
  [[nodiscard]] std::vector<std::string> Due(Time now);
  [[nodiscard]] std::optional<Time> next() const;
  // Ends the container; returns the lines that are not yet written.
  [[nodiscard]] std::vector<std::string> End(const std::string& id);

 private:
  struct Name {
    std::uint64_t count = 0;
    std::uint64_t written = 0;
    Time when{};
  };
  struct Container {
    std::string engine_id;
    std::map<std::string, Name> names;
    std::map<std::string, std::uint64_t> others;  // counts
  };

  static std::string Line(const std::string& id, const Container& container,
                          const std::string& what, Name& name, Time now);
  [[nodiscard]] std::optional<Time> When(const Name& name) const;

  std::chrono::seconds interval_;
  std::map<std::string, Container> containers_;  // by id
};

}  // namespace cgpu

#endif  // CGPU_CGPUD_AUDIT_H_
