// Counts how long containers and other processes have used each GPU, in seconds. Pure.
//
// A container's count ends with the container. The GPU's own count goes on.
#ifndef CGPU_EXPORTER_CONTAINER_USE_H_
#define CGPU_EXPORTER_CONTAINER_USE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace cgpu::exporter {

inline constexpr double kNsPerSecond = 1e9;

struct UsedSeconds {
  double busy = 0;     // the GPU worked for it
  double waiting = 0;  // others had the GPU while it came back for more
};

struct GpuSeconds {
  double busy = 0;         // of all processes, also of those that are of no container
  double unmanaged = 0;    // of processes that are of no container
  double counted = 0;      // time of the GPU that `busy` and its parts cover
  std::uint64_t gaps = 0;  // how often the driver's lists were read too late (Measuring::Use)
  std::map<std::string, UsedSeconds> containers;  // by id

  // Returns what a container has used; 0 for one that has used nothing.
  [[nodiscard]] UsedSeconds Of(const std::string& id) const;
};

class ContainerUse {
 public:
  // Id of a container; kUnmanaged: the process is of none; kEnded: its container has ended.
  using Owner = std::string;
  static constexpr char kUnmanaged[] = "";
  static constexpr char kEnded[] = "-";
  // Returns the owner of a process; nothing: the process has ended.
  using Whose = std::function<std::optional<Owner>(std::uint32_t pid)>;

  // Seconds by process.
  using ByProcess = std::map<std::uint32_t, UsedSeconds>;

  // Adds what was measured on a GPU. The owner of a process that has ended meanwhile is the one
  // that it had before.
  void Add(const std::string& uuid, const ByProcess& used, const Whose& whose);
  // Adds time of the GPU that Add() has covered.
  void AddTime(const std::string& uuid, double seconds) { gpus_[uuid].counted += seconds; }
  void AddGaps(const std::string& uuid, std::uint64_t gaps) { gpus_[uuid].gaps += gaps; }
  // Forgets all containers but these.
  void Keep(const std::set<std::string>& ids);

  [[nodiscard]] const std::map<std::string, GpuSeconds>& gpus() const { return gpus_; }

 private:
  [[nodiscard]] Owner OwnerOf(std::uint32_t pid, const Whose& whose);

  std::map<std::string, GpuSeconds> gpus_;  // by UUID
  struct Known {
    Owner owner;
    bool used = false;  // the GPU, since the last Keep()
  };
  std::map<std::uint32_t, Known> known_;  // by process
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_CONTAINER_USE_H_
