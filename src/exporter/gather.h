// Takes a snapshot of the host for its metrics: from the registry, the shims and the driver.
#ifndef CGPU_EXPORTER_GATHER_H_
#define CGPU_EXPORTER_GATHER_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "cgpud/plan_gpus.h"
#include "exporter/collector.h"
#include "exporter/gpu_reader.h"
#include "exporter/kernel_log.h"
#include "exporter/snapshot.h"
#include "host/health.h"
#include "host/node.h"
#include "host/registry.h"

namespace cgpu::exporter {

// For one thread at a time.
class Gatherer {
 public:
  // `node`: as FindNode() takes it; `max_inst`: for GPUs for which nothing else was set. The
  // references outlive this.
  Gatherer(std::string node, unsigned max_inst, std::string version, const Registry& registry,
           Collector& collector)
      : node_name_(std::move(node)),
        max_inst_(max_inst),
        version_(std::move(version)),
        registry_(registry),
        collector_(collector) {}

  // Takes a snapshot. Waits for shims, which together have two seconds once one has answered, and
  // then one second for the GPUs. A host without a driver has no GPUs.
  [[nodiscard]] Result<Snapshot> Take();

 private:
  // Outcome of HealthWatch, by place in the node's list.
  struct Health {
    Mutex mutex;
    std::vector<bool> healthy CGPU_GUARDED_BY(mutex);
  };

  [[nodiscard]] Result<> Open();
  // Waits for the driver's answers; in the order of the node's GPUs.
  [[nodiscard]] std::vector<std::optional<GpuMemory>> Memory();
  [[nodiscard]] Result<> AddGpus(const Collector::Counted& counted,
                                 const std::vector<std::optional<GpuMemory>>& memory,
                                 const RegistryLock& lock, Snapshot& snapshot);
  [[nodiscard]] bool IsHealthy(std::size_t gpu);

  const std::string node_name_;
  const unsigned max_inst_;
  const std::string version_;
  const Registry& registry_;
  Collector& collector_;

  std::optional<Node> node_;
  std::vector<std::unique_ptr<GpuReader>> readers_;  // as node_->GPUs
  std::shared_ptr<Health> health_;
  std::unique_ptr<HealthWatch> watch_;
  KernelLog kernel_log_;
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_GATHER_H_
