#include "exporter/collector.h"

#include <chrono>
#include <set>
#include <utility>

#include "exporter/container_use.h"
#include "exporter/shim_users.h"
#include "host/node.h"

namespace cgpu::exporter {
namespace {

// Time after which a host without GPUs is looked at again.
constexpr std::chrono::seconds kRetry{5};
// Time between two moments whose counts are kept.
constexpr std::chrono::seconds kNoteEvery{1};

struct Measurement {
  ContainerUse::ByProcess used;
  double seconds = 0;  // of the GPU's time, that `used` covers
  std::uint64_t gaps = 0;
};
using ByGpu = std::map<std::string, Measurement>;

// Returns what was measured since the last time.
ByGpu Measured(Measuring& measuring, const std::map<std::string, std::uint64_t>& least_ns) {
  ByGpu gpus;
  (void)measuring.Read(least_ns);
  for (const auto& [uuid, use] : measuring.Used()) {
    Measurement& gpu = gpus[uuid];
    gpu.gaps = use.gaps;
    for (const auto& [pid, waiting_ns] : use.waiting_ns) {
      gpu.used[pid].waiting = waiting_ns / kNsPerSecond;
    }
    if (!use.engine) {
      continue;
    }
    gpu.seconds = static_cast<double>(use.engine->span_ns) / kNsPerSecond;
    for (const auto& [pid, used_ns] : use.engine->used_ns) {
      gpu.used[pid].busy = static_cast<double>(used_ns) / kNsPerSecond;
    }
  }
  return gpus;
}

// Returns the users that the processes run under. Those that have ended are missing.
std::map<std::uint32_t, uid_t> UsersOf(const ByGpu& gpus) {
  std::map<std::uint32_t, uid_t> users;
  for (const auto& [uuid, measured] : gpus) {
    for (const auto& [pid, seconds] : measured.used) {
      if (const auto user = UserOf(pid)) {
        users[pid] = *user;
      }
    }
  }
  return users;
}

}  // namespace

Collector::Collector(const std::string& node, const Registry& registry, Log log)
    : node_(node),
      registry_(registry),
      log_(std::move(log)),
      measuring_(node, Measuring::What::kUse) {
  thread_ = std::thread([this] { Run(); });
}

Collector::~Collector() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void Collector::Run() {
  while (true) {
    if (least_ns_.empty()) {
      Watch();
    }
    Read();
    const auto rest = measuring_.any() ? std::chrono::milliseconds(measuring_.Rest())
                                       : std::chrono::milliseconds(kRetry);
    const auto until = std::chrono::steady_clock::now() + rest;
    const MutexLock lock(mutex_);
    while (!stop_ && stopped_.WaitUntil(mutex_, until)) {
    }
    if (stop_) {
      return;
    }
  }
}

void Collector::Watch() {
  const auto node = FindNode(node_);
  if (!node.ok()) {
    return;
  }
  std::set<std::string> uuids;
  for (const Gpu& gpu : node->gpus) {
    uuids.insert(gpu.uuid);
    least_ns_[gpu.uuid] = 0;
  }
  for (const std::string& line : measuring_.Watch(uuids)) {
    log_(line);
  }
}

void Collector::Read() {
  const ByGpu gpus = Measured(measuring_, least_ns_);
  const Users users = UsersOf(gpus);
  if (!KnowsAll(users)) {
    // Nobody waits for the registry's lock with this object's own: see Count().
    const auto live = registry_.Live();
    const MutexLock lock(mutex_);
    if (live.ok()) {
      Know(*live);
    }
  }
  const MutexLock lock(mutex_);
  for (const auto& [uuid, measured] : gpus) {
    use_.AddTime(uuid, measured.seconds);
    use_.AddGaps(uuid, measured.gaps);
    use_.Add(uuid, measured.used,
             [&](std::uint32_t pid) CGPU_REQUIRES(mutex_) { return OwnerOf(users, pid); });
  }
  Note(std::chrono::steady_clock::now());
}

bool Collector::KnowsAll(const Users& users) {
  const MutexLock lock(mutex_);
  for (const auto& [pid, user] : users) {
    if (IsShimUser(user) && !shims_.contains(user)) {
      return false;
    }
  }
  return true;
}

std::optional<ContainerUse::Owner> Collector::OwnerOf(const Users& users, std::uint32_t pid) const {
  const auto user = users.find(pid);
  if (user == users.end()) {
    return std::nullopt;
  }
  if (!IsShimUser(user->second)) {
    return ContainerUse::kUnmanaged;
  }
  const auto shim = shims_.find(user->second);
  return shim == shims_.end() ? ContainerUse::kEnded : shim->second;
}

void Collector::Know(const std::vector<Reservation>& live) {
  shims_.clear();
  std::set<std::string> ids;
  for (const Reservation& one : live) {
    shims_[one.shim_uid] = one.id;
    ids.insert(one.id);
  }
  use_.Keep(ids);
}

void Collector::Note(std::chrono::steady_clock::time_point now) {
  if (!newer_ || now - newer_->time >= kNoteEvery) {
    older_ = std::exchange(newer_, Moment{now, use_.gpus()});
  }
}

Collector::Counted Collector::Count(const std::vector<Reservation>& live) {
  const MutexLock lock(mutex_);
  Know(live);
  Counted counted;
  counted.now = use_.gpus();
  if (older_) {
    counted.before = older_->gpus;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - older_->time;
    counted.seconds = since.count();
  }
  return counted;
}

}  // namespace cgpu::exporter
