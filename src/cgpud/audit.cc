#include "cgpud/audit.h"

#include <algorithm>

#include "protocol/text.h"

namespace cgpu {

std::string AuditLog::Line(const std::string& id, const Container& container,
                           const std::string& what, Name& name, Time now) {
  name.written = name.count;
  name.when = now;
  std::string line =
      JoinLine({"audit", "container=" + id,
                "engine=" + (container.engine_id.empty() ? "-" : container.engine_id),
                "refused=" + what, "count=" + std::to_string(name.count)});
  line.pop_back();  // the newline
  return line;
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

// Returns when a line is due; nothing if there is nothing new.
std::optional<AuditLog::Time> AuditLog::When(const Name& name) const {
  if (name.count <= name.written) {
    return std::nullopt;
  }
  return name.written == 0 ? Time::min() : name.when + interval_;
}

std::vector<std::string> AuditLog::Due(Time now) {
  std::vector<std::string> lines;
  for (auto& [id, container] : containers_) {
    for (auto& [what, name] : container.names) {
      const auto when = When(name);
      if (when && *when <= now) {
        lines.push_back(Line(id, container, what, name, now));
      }
    }
  }
  return lines;
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

std::vector<std::string> AuditLog::End(const std::string& id) {
  std::vector<std::string> lines;
  auto ended = containers_.extract(id);
  if (ended.empty()) {
    return lines;
  }
  for (auto& [what, name] : ended.mapped().names) {
    if (name.count > name.written) {
      lines.push_back(Line(id, ended.mapped(), what, name, {}));
    }
  }
  return lines;
}

}  // namespace cgpu
