#include "cgpud/measure.h"

#include <algorithm>

#include "host/node.h"

namespace cgpu {
namespace {

// The driver writes switches thirty times a second. So those of a sample are all there when the
// next samples are read.
constexpr std::chrono::milliseconds kSampleEvery{250};

}  // namespace

Result<> Measuring::Open() {
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(node_));
  CGPU_ASSIGN_OR_RETURN(auto client, rmclient::Client::Open(PathsOf(node)));
  client_ = std::make_unique<rmclient::Client>(std::move(client));
  CGPU_ASSIGN_OR_RETURN(opened_, rmclient::OpenGpus(*client_));
  return {};
}

Result<> Measuring::Begin(const std::string& uuid) {
  if (client_ == nullptr) {
    CGPU_TRY(Open());
  }
  const auto gpu =
      std::ranges::find_if(opened_, [&uuid](const auto& one) { return one.uuid == uuid; });
  if (gpu == opened_.end()) {
    return Error{Code::kNotFound, 0, "the driver has no GPU " + uuid, {}};
  }
  CGPU_ASSIGN_OR_RETURN(auto log, rmclient::SwitchLog::Make(*client_, *gpu));
  Gpu& begun = gpus_[uuid];
  begun.log = std::make_unique<rmclient::SwitchLog>(std::move(log));
  if (what_ == What::kUse) {
    const auto before = rmclient::ReadUtilisation(*client_, *gpu);
    begun.told = before.ok();
    begun.newest_ns = before.ok() && !before->empty() ? before->back().time_ns : 0;
  }
  return {};
}

std::vector<std::string> Measuring::Watch(const std::set<std::string>& uuids) {
  std::vector<std::string> log;
  std::erase_if(refused_, [&](const std::string& uuid) { return !uuids.contains(uuid); });
  const bool fewer =
      std::erase_if(gpus_, [&](const auto& one) { return !uuids.contains(one.first); }) != 0;
  if (fewer) {  // the driver forgets a list with its client
    gpus_.clear();
    opened_.clear();
    client_.reset();
  }
  for (const std::string& uuid : uuids) {
    if (gpus_.contains(uuid) || refused_.contains(uuid)) {
      continue;
    }
    if (const auto begun = Begin(uuid); !begun.ok()) {
      refused_.insert(uuid);
      log.push_back("what containers get of GPU " + uuid +
                    " cannot be measured: " + begun.error().what);
      if (gpus_.empty()) {
        opened_.clear();
        client_.reset();
      }
    }
    still_ = 0;
  }
  return log;
}

std::map<std::string, governor::Meter::Use> Measuring::Read(
    const std::map<std::string, std::uint64_t>& least_ns) {
  std::map<std::string, governor::Meter::Use> uses;
  bool any = false;
  const auto now = std::chrono::steady_clock::now();
  for (auto& [uuid, gpu] : gpus_) {
    const auto news = gpu.log->Read();
    any = any || !news.switches.empty();
    if (news.lost) {
      gpu.meter.Lost();
      gpu.counter.Lost();
      ++gpu.use.gaps;
    }
    for (const rmclient::Switch& one : news.switches) {
      gpu.meter.Add(one.pid, one.time_ns, one.begins);
      if (what_ == What::kUse) {
        gpu.counter.Add(one.pid, one.time_ns, one.begins);
      }
    }
    if (auto use = gpu.meter.Take(least_ns.at(uuid))) {
      if (what_ == What::kUse) {
        const auto span_ns = static_cast<double>(use->span_ns);
        gpu.use.switches_ns += span_ns;
        for (const auto& [pid, part] : use->parts) {
          gpu.use.waiting_ns[pid] += part.between * span_ns;
        }
      }
      uses.emplace(uuid, std::move(*use));
    }
  }
  if (what_ == What::kUse && now >= sampled_ + kSampleEvery) {
    sampled_ = now;
    Sample();
  }
  still_ = any ? 0 : still_ + 1;
  return uses;
}

// Counts the samples of the last time, and reads those that came since then.
void Measuring::Sample() {
  for (auto& [uuid, gpu] : gpus_) {
    for (const rmclient::Utilisation& one : gpu.waiting) {
      gpu.counter.AddSample({one.time_ns, one.length_ns, one.busy, one.pid});
    }
    gpu.waiting.clear();
    const auto opened =
        std::ranges::find_if(opened_, [&](const auto& one) { return one.uuid == uuid; });
    const auto samples = rmclient::ReadUtilisation(*client_, *opened);
    gpu.told = samples.ok();
    if (!samples.ok()) {
      continue;
    }
    // A full list of which all is new may have had more.
    const bool gap = gpu.newest_ns != 0 && samples->size() == rmclient::kSamples &&
                     samples->front().time_ns > gpu.newest_ns + samples->front().length_ns * 3 / 2;
    gpu.use.gaps += gap ? 1 : 0;
    for (const rmclient::Utilisation& one : *samples) {
      if (one.time_ns > gpu.newest_ns) {
        gpu.newest_ns = one.time_ns;
        gpu.waiting.push_back(one);
      }
    }
  }
}

std::map<std::string, Measuring::Use> Measuring::Used() {
  std::map<std::string, Use> uses;
  for (auto& [uuid, gpu] : gpus_) {
    Use& use = uses[uuid] = std::exchange(gpu.use, Use{});
    if (gpu.told) {
      use.engine = gpu.counter.Take();
    }
  }
  return uses;
}

}  // namespace cgpu
