#include "cgpud/audit.h"

#include <algorithm>

namespace cgpu {

LogFields AuditFields(const Refusal& refusal) {
  return {{"container", refusal.container},
          {"engine", refusal.engine_id.empty() ? "-" : refusal.engine_id},
          {"refused", refusal.what},
          {"count", std::to_string(refusal.count)}};
}

DueRefusal AuditLog::Say(const std::string& id, const Container& container, const std::string& what,
                         Name& name, Time now) const {
  DueRefusal due;
  due.container = id;
  due.engine_id = container.engine_id;
  due.what = what;
  due.count = name.count;
  due.grown = name.count - name.written;
  const bool goes_on = name.when && now - *name.when <= 2 * name.interval;
  due.over = name.when ? std::chrono::floor<std::chrono::milliseconds>(now - *name.when)
                       : std::chrono::milliseconds(0);
  name.interval = goes_on ? std::min(2 * name.interval, longest_) : interval_;
  name.written = name.count;
  name.when = now;
  return due;
}

void AuditLog::Take(const Refusal& refusal) {
  Container& container = containers_[refusal.container];
  container.engine_id = refusal.engine_id;
  if (container.names.contains(refusal.what) || container.names.size() < kMaxNames) {
    container.names[refusal.what].count = refusal.count;
    return;
  }
  if (container.others.contains(refusal.what) || container.others.size() < kMaxOthers) {
    std::uint64_t& before = container.others[refusal.what];
    container.names["others"].count += refusal.count - std::min(before, refusal.count);
    before = refusal.count;
  }
}

void AuditLog::TakeSaid(const Refusal& refusal) {
  Take(refusal);
  for (auto& [what, name] : containers_[refusal.container].names) {
    if (what == refusal.what) {
      name.written = name.count;
    }
  }
}

// Returns when it is due; nothing if there is nothing new.
std::optional<AuditLog::Time> AuditLog::When(const Name& name) {
  if (name.count <= name.written) {
    return std::nullopt;
  }
  return name.when ? *name.when + name.interval : Time::min();
}

std::vector<DueRefusal> AuditLog::Due(Time now) {
  std::vector<DueRefusal> all;
  for (auto& [id, container] : containers_) {
    for (auto& [what, name] : container.names) {
      const auto when = When(name);
      if (when && *when <= now) {
        all.push_back(Say(id, container, what, name, now));
      }
    }
  }
  return all;
}

std::optional<AuditLog::Time> AuditLog::next() const {
  std::optional<Time> first;
  for (const auto& [id, container] : containers_) {
    for (const auto& [what, name] : container.names) {
      const auto when = When(name);
      if (when && (!first || *when < *first)) {
        first = when;
      }
    }
  }
  return first;
}

std::vector<DueRefusal> AuditLog::End(const std::string& id, Time now) {
  std::vector<DueRefusal> all;
  auto ended = containers_.extract(id);
  if (ended.empty()) {
    return all;
  }
  for (auto& [what, name] : ended.mapped().names) {
    if (name.count > name.written) {
      all.push_back(Say(id, ended.mapped(), what, name, now));
    }
  }
  return all;
}

}  // namespace cgpu
