// A host at one moment, as its metrics show it.
#ifndef CGPU_EXPORTER_SNAPSHOT_H_
#define CGPU_EXPORTER_SNAPSHOT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exporter/container_use.h"
#include "protocol/admin.h"

namespace cgpu::exporter {

// Memory of a GPU, in bytes, as the driver counts it.
struct GpuMemory {
  std::uint64_t used = 0;
  std::uint64_t free = 0;
  std::uint64_t unmanaged = 0;            // of processes that are of no container
  std::uint64_t unmanaged_processes = 0;  // that hold memory
};

struct GpuSample {
  std::string uuid;
  unsigned index = 0;  // in the host's enumeration
  unsigned minor = 0;  // number of /dev/nvidia<minor>
  std::string model;
  std::string pci;  // bus address
  std::uint64_t total_bytes = 0;
  std::optional<GpuMemory> memory;  // nothing: the driver does not say
  bool healthy = true;
  std::optional<unsigned> last_xid;  // 0: the driver logged none; nothing: it is not known
  std::uint64_t granted_bytes = 0;
  double granted_share = 0;  // sum of what its containers are promised, 1: the whole GPU
  std::uint64_t slices = 0;  // containers that have a slice of it
  unsigned most_slices = 0;
  std::optional<int> policy;  // number; nothing: none was set or chosen
  GpuSeconds seconds;
  GpuSeconds before;  // `seconds` of some time ago
};

// Part of a GPU's compute time that a container is given; 1: all of it.
struct ShareSample {
  double promised = 0;
  double most = 1;
};

struct ContainerSample {
  ContainerStatus status;
  bool answers = true;     // false: its shim says nothing, and `status` has none of its figures
  std::string name_space;  // of its pod, in Kubernetes; else empty, as is `pod_name`
  std::string pod_name;
  std::map<std::string, ShareSample> shares;  // by UUID; none for a container held to nothing
};

struct Snapshot {
  std::string version;  // cgpu's
  std::string driver;
  std::string host_name;
  double before_seconds = 0;  // ago; 0: there is nothing from before
  std::vector<GpuSample> gpus;
  std::vector<ContainerSample> containers;

  // Returns what a container has used of a GPU; 0 where either is not known.
  [[nodiscard]] UsedSeconds SecondsOf(const std::string& id, const std::string& uuid) const {
    const auto gpu = std::ranges::find(gpus, uuid, &GpuSample::uuid);
    return gpu == gpus.end() ? UsedSeconds{} : gpu->seconds.Of(id);
  }
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_SNAPSHOT_H_
