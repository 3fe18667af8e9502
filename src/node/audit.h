// Which driver calls of engines' containers were refused at the boundary, for the daemon's log: a
// line for each container and name of a call,
//
//   audit container=ID engine=ENGINE_ID refused=NAME count=N
//
// N being all of them since the container began, so that no line must be added up. A space in a
// word is %20, as in registry/text.h. A name is written when it is first seen, then at most once in
// an interval and only if its count has grown, and at last when the container has ended.
//
// Shims are asked once a second, and when a process that the container began with or that was added
// to it exits. What is refused after the last answer of a shim is not known: a container's last
// calls may be missing.
#ifndef CGPU_NODE_AUDIT_H_
#define CGPU_NODE_AUDIT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "registry/registry.h"

namespace cgpu {

using RefusedCounts = std::map<std::string, std::uint64_t>;  // by name

// The answer to "refused" (registry/admin.h), as far as it goes: it may be cut off.
[[nodiscard]] RefusedCounts DecodeRefused(std::string_view text);

// What was written of whom, and when. Pure.
class AuditBook {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Names of one container; a tenant can think up many. The rest is counted as "others".
  static constexpr std::size_t kMaxNames = 64;

  explicit AuditBook(std::chrono::seconds interval) : interval_(interval) {}

  // A container's counts at `now`; the lines to write. Counts never shrink.
  [[nodiscard]] std::vector<std::string> Take(const std::string& id, const std::string& engine_id,
                                              const RefusedCounts& counts, Time now);
  // The container has ended: what is not yet written of it.
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
  };

  static std::string Line(const std::string& id, const Container& container,
                          const std::string& what, Name& name, Time now);

  std::chrono::seconds interval_;
  std::map<std::string, Container> containers_;  // by id
};

// Asks the shims. Never waits for one.
class Audit {
 public:
  // kExhausted without a timer.
  [[nodiscard]] static Result<Audit> Make(const Registry& registry, std::chrono::seconds interval);

  // Descriptors to poll for reading; of those that are readable, Look() takes what there is.
  [[nodiscard]] std::vector<int> descriptors() const;

  // `containers`: engines' ids by id, of those that live; `exited`: ids of those to ask at once.
  // Returns the lines to write.
  [[nodiscard]] std::vector<std::string> Look(const std::vector<int>& readable,
                                              const std::map<std::string, std::string>& containers,
                                              const std::vector<std::string>& exited);

 private:
  struct Asked {
    UniqueFd shim;
    std::string text;
  };

  Audit(const Registry& registry, std::chrono::seconds interval, UniqueFd timer)
      : registry_(registry), book_(interval), timer_(std::move(timer)) {}

  void Ask(const std::string& id);
  // False at the end of the answer.
  static bool Read(Asked& asked);

  const Registry& registry_;
  AuditBook book_;
  UniqueFd timer_;
  std::map<std::string, Asked> asked_;          // by id
  std::map<std::string, std::string> engines_;  // engines' ids by id, of those that are in the book
};

}  // namespace cgpu

#endif  // CGPU_NODE_AUDIT_H_
