#include "exporter/gather.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <utility>

#include "host/admin.h"
#include "host/pod_grants.h"

namespace cgpu::exporter {
namespace {

constexpr std::chrono::seconds kHealthPeriod{10};
// Time for the driver's answers, once those of the shims are there.
constexpr std::chrono::seconds kDriverTime{1};

using Plans = std::map<std::string, PlannedGpu>;

// Returns the most that the clock lets a container have.
double MostOf(const governor::Duty& duty) {
  return duty.period_us == 0 ? 1 : static_cast<double>(duty.on_us) / duty.period_us;
}

GpuSeconds At(const std::map<std::string, GpuSeconds>& gpus, const std::string& uuid) {
  const auto gpu = gpus.find(uuid);
  return gpu == gpus.end() ? GpuSeconds{} : gpu->second;
}

// Returns the name of the Kubernetes node where NODE_NAME has it: a pod has a host name of its own.
std::string HostName() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it
  if (const char* node = std::getenv("NODE_NAME")) {
    return node;
  }
  char name[HOST_NAME_MAX + 1] = {};
  (void)gethostname(name, sizeof(name) - 1);
  return name;
}

// Adds what the containers have of the GPU.
void AddGrants(const std::vector<ContainerSample>& containers, GpuSample& gpu) {
  for (const ContainerSample& container : containers) {
    for (const GpuStatus& slice : container.status.gpus) {
      if (slice.uuid == gpu.uuid) {
        gpu.granted_bytes += slice.reserved_bytes;
        ++gpu.slices;
      }
    }
    const auto share = container.shares.find(gpu.uuid);
    gpu.granted_share += share == container.shares.end() ? 0 : share->second.promised;
  }
}

std::map<std::string, ShareSample> SharesOf(const std::string& id, const Plans& plans) {
  std::map<std::string, ShareSample> shares;
  for (const auto& [uuid, plan] : plans) {
    for (const PlannedMember& member : plan.members) {
      if (member.id == id) {
        shares[uuid] = {member.promised, std::min(MostOf(member.order.duty), member.cap)};
      }
    }
  }
  return shares;
}

Result<std::vector<Reservation>> Recorded(const Registry& registry) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  return registry.Recorded(lock);
}

ContainerSample SampleOf(ContainerStatus status, const Plans& plans) {
  ContainerSample sample;
  sample.shares = SharesOf(status.id, plans);
  if (!status.pod.empty()) {
    if (auto grant = WaitForPodGrant(status.pod, std::chrono::milliseconds(0)); grant.ok()) {
      sample.name_space = std::move(grant->name_space);
      sample.pod_name = std::move(grant->name);
    }
  }
  sample.answers = status.state != kUnresponsive;
  sample.status = std::move(status);
  return sample;
}

}  // namespace

Result<> Gatherer::Open() {
  CGPU_ASSIGN_OR_RETURN(auto node, FindNode(node_name_));
  auto health = std::make_shared<Health>();
  std::vector<HealthWatch::Ask> asks;
  for (const Gpu& gpu : node.gpus) {
    asks.push_back(AskerOf(node, gpu));
    readers_.push_back(std::make_unique<GpuReader>(node, gpu));
  }
  {
    const MutexLock lock(health->mutex);
    health->healthy.assign(node.gpus.size(), true);
  }
  health_ = health;
  watch_ = std::make_unique<HealthWatch>(std::move(asks), kHealthPeriod,
                                         [health](std::size_t gpu, bool healthy) {
                                           const MutexLock lock(health->mutex);
                                           health->healthy[gpu] = healthy;
                                         });
  node_ = std::move(node);
  return {};
}

bool Gatherer::IsHealthy(std::size_t gpu) {
  const MutexLock lock(health_->mutex);
  return health_->healthy[gpu];
}

std::vector<std::optional<GpuMemory>> Gatherer::Memory() {
  const auto until = std::chrono::steady_clock::now() + kDriverTime;
  std::vector<std::optional<GpuMemory>> memory(readers_.size());
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    if (auto reading = readers_[i]->Answer(until)) {
      node_->gpus[i].model = std::move(reading->model);  // a simulated node has a shorter one
      memory[i] = reading->memory;
    }
  }
  return memory;
}

Result<> Gatherer::AddGpus(const Collector::Counted& counted,
                           const std::vector<std::optional<GpuMemory>>& memory,
                           const RegistryLock& lock, Snapshot& snapshot) {
  snapshot.driver = node_->driver;
  snapshot.before_seconds = counted.seconds;
  for (std::size_t i = 0; i < node_->gpus.size(); ++i) {
    const Gpu& known = node_->gpus[i];
    GpuSample gpu;
    gpu.uuid = known.uuid;
    gpu.index = known.index;
    gpu.minor = known.minor;
    gpu.pci = known.bdf;
    gpu.total_bytes = known.memory_bytes;
    gpu.healthy = IsHealthy(i);
    if (node_->name.empty()) {  // the kernel knows no simulated GPUs
      gpu.last_xid = kernel_log_.LastXid(known.bdf);
    }
    gpu.model = known.model;
    gpu.memory = memory[i];
    AddGrants(snapshot.containers, gpu);
    CGPU_ASSIGN_OR_RETURN(const auto settings, registry_.SettingsOf(lock, known.uuid));
    gpu.most_slices = settings.max_inst.value_or(max_inst_);
    const auto policy = settings.policy ? settings.policy : settings.chosen;
    gpu.policy = policy ? std::optional(static_cast<int>(*policy)) : std::nullopt;
    gpu.seconds = At(counted.now, known.uuid);
    gpu.before = At(counted.before, known.uuid);
    snapshot.gpus.push_back(std::move(gpu));
  }
  return {};
}

Result<Snapshot> Gatherer::Take() {
  Snapshot snapshot;
  snapshot.version = version_;
  snapshot.host_name = HostName();
  if (!node_) {
    (void)Open();  // without GPUs, there is still the rest
  }
  kernel_log_.Read();
  for (const auto& reader : readers_) {
    reader->Ask();  // meanwhile the shims are asked
  }
  CGPU_ASSIGN_OR_RETURN(auto recorded, Recorded(registry_));
  auto containers = ListContainers(registry_, recorded);
  std::erase_if(recorded, [&](const Reservation& one) {  // those that have ended
    return std::ranges::find(containers, one.id, &ContainerStatus::id) == containers.end();
  });
  const auto memory = Memory();  // may take a second: the registry is not locked meanwhile
  const auto counted = collector_.Count(recorded);
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry_.Lock());
  const auto plans =
      PlanGpus(registry_, lock, recorded, max_inst_, node_ ? MeansOfGpus(*node_) : Means());
  for (ContainerStatus& status : containers) {
    snapshot.containers.push_back(SampleOf(std::move(status), plans));
  }
  if (node_) {
    CGPU_TRY(AddGpus(counted, memory, lock, snapshot));
  }
  return snapshot;
}

}  // namespace cgpu::exporter
