#include "node/audit.h"

#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "registry/text.h"

namespace cgpu {
namespace {

constexpr char kOthers[] = "others";

bool Contains(const std::vector<int>& all, int fd) {
  return std::find(all.begin(), all.end(), fd) != all.end();
}

void Append(std::vector<std::string>& all, std::vector<std::string> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

RefusedCounts DecodeRefused(std::string_view text) {
  RefusedCounts counts;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    const std::size_t space = line.find(' ');
    std::uint64_t count = 0;
    if (space != std::string_view::npos && space + 1 < line.size() &&
        ToNumber(line.substr(0, space), 10, std::numeric_limits<std::uint64_t>::max(), count)) {
      counts[std::string(line.substr(space + 1))] = count;
    }
  }
  return counts;
}

std::string AuditBook::Line(const std::string& id, const Container& container,
                            const std::string& what, Name& name, Time now) {
  name.written = name.count;
  name.when = now;
  std::string line = JoinLine({"audit", "container=" + id, "engine=" + container.engine_id,
                               "refused=" + what, "count=" + std::to_string(name.count)});
  line.pop_back();  // the newline
  return line;
}

std::vector<std::string> AuditBook::Take(const std::string& id, const std::string& engine_id,
                                         const RefusedCounts& counts, Time now) {
  Container& container = containers_[id];
  container.engine_id = engine_id;
  std::uint64_t others = 0;
  for (const auto& [what, count] : counts) {
    if (container.names.contains(what) || container.names.size() < kMaxNames) {
      container.names[what].count = count;
    } else {
      others += count;
    }
  }
  if (others > 0) {
    container.names[kOthers].count = others;
  }
  std::vector<std::string> lines;
  for (auto& [what, name] : container.names) {
    if (name.count > name.written && (name.written == 0 || now - name.when >= interval_)) {
      lines.push_back(Line(id, container, what, name, now));
    }
  }
  return lines;
}

std::vector<std::string> AuditBook::End(const std::string& id) {
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

Result<Audit> Audit::Make(const Registry& registry, std::chrono::seconds interval) {
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const itimerspec every{{1, 0}, {1, 0}};
  if (!timer.valid() || timerfd_settime(timer.get(), 0, &every, nullptr) != 0) {
    return ErrnoError(Code::kExhausted, errno, "cannot make a timer");
  }
  return Audit(registry, interval, std::move(timer));
}

std::vector<int> Audit::descriptors() const {
  std::vector<int> all{timer_.get()};
  for (const auto& [id, asked] : asked_) {
    all.push_back(asked.shim.get());
  }
  return all;
}

// One that has not answered yet is not asked again.
void Audit::Ask(const std::string& id) {
  if (asked_.contains(id)) {
    return;
  }
  AdminRequest request;
  request.kind = AdminRequest::Kind::kRefused;
  if (auto shim = registry_.Request(id, request); shim.ok()) {
    asked_[id].shim = std::move(*shim);
  }
}

bool Audit::Read(Asked& asked) {
  char buffer[4096];
  const ssize_t n = recv(asked.shim.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (n <= 0) {
    return n < 0 && (errno == EAGAIN || errno == EINTR);
  }
  asked.text.append(buffer, static_cast<std::size_t>(n));
  return asked.text.size() <= kMaxMessage;
}

std::vector<std::string> Audit::Look(const std::vector<int>& readable,
                                     const std::map<std::string, std::string>& containers,
                                     const std::vector<std::string>& exited) {
  std::vector<std::string> lines;
  engines_.insert(containers.begin(), containers.end());
  for (auto at = asked_.begin(); at != asked_.end();) {
    if (!Contains(readable, at->second.shim.get()) || Read(at->second)) {
      ++at;
      continue;
    }
    Append(lines, book_.Take(at->first, engines_[at->first], DecodeRefused(at->second.text),
                             std::chrono::steady_clock::now()));
    at = asked_.erase(at);
  }
  for (const std::string& id : exited) {
    Ask(id);
  }
  std::uint64_t ticks = 0;
  if (Contains(readable, timer_.get()) && read(timer_.get(), &ticks, sizeof(ticks)) > 0) {
    for (const auto& [id, engine_id] : containers) {
      Ask(id);
    }
  }
  for (auto at = engines_.begin(); at != engines_.end();) {
    if (containers.contains(at->first) || asked_.contains(at->first)) {
      ++at;
      continue;
    }
    Append(lines, book_.End(at->first));
    at = engines_.erase(at);
  }
  return lines;
}

}  // namespace cgpu
