// Measures all GPUs of the host without a pause, on a thread of its own, and counts what containers
// use.
#ifndef CGPU_EXPORTER_COLLECTOR_H_
#define CGPU_EXPORTER_COLLECTOR_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cgpud/measure.h"
#include "exporter/container_use.h"
#include "host/registry.h"

namespace cgpu::exporter {

class Collector {
 public:
  using Log = std::function<void(const std::string& sentence)>;

  // Measures from now on. `node`: as FindNode() takes it. `registry` outlives this.
  Collector(const std::string& node, const Registry& registry, Log log);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector();

  struct Counted {
    std::map<std::string, GpuSeconds> now;     // by UUID
    std::map<std::string, GpuSeconds> before;  // counted `seconds` ago: one to three
    double seconds = 0;                        // 0: nothing was counted then
  };
  // Returns what was counted until now. Forgets containers that are not among `live`. Waits neither
  // for a GPU nor for the registry's lock, which the caller may have. For any thread.
  [[nodiscard]] Counted Count(const std::vector<Reservation>& live);

 private:
  using Users = std::map<std::uint32_t, uid_t>;  // by process

  void Run();
  void Watch();
  void Read();
  void Note(std::chrono::steady_clock::time_point now) CGPU_REQUIRES(mutex_);
  void Know(const std::vector<Reservation>& live) CGPU_REQUIRES(mutex_);
  [[nodiscard]] bool KnowsAll(const Users& users);
  [[nodiscard]] std::optional<ContainerUse::Owner> OwnerOf(const Users& users,
                                                           std::uint32_t pid) const
      CGPU_REQUIRES(mutex_);

  const std::string node_;
  const Registry& registry_;
  const Log log_;
  // For the thread alone: a GPU that hangs may hold it up.
  Measuring measuring_;
  std::map<std::string, std::uint64_t> least_ns_;  // by UUID of each GPU

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ CGPU_GUARDED_BY(mutex_) = false;
  ContainerUse use_ CGPU_GUARDED_BY(mutex_);
  struct Moment {
    std::chrono::steady_clock::time_point time;
    std::map<std::string, GpuSeconds> gpus;
  };
  std::optional<Moment> newer_ CGPU_GUARDED_BY(mutex_);
  std::optional<Moment> older_ CGPU_GUARDED_BY(mutex_);
  // Containers by the user that their shims run under: each has one of its own.
  std::map<uid_t, std::string> shims_ CGPU_GUARDED_BY(mutex_);
  std::thread thread_;  // begins last
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_COLLECTOR_H_
