// Describes to the placement the nodes of a cluster and what a pod asks of them.
//
// GPU memory is counted in whole units of the caller's choice (GiB for aliyun.com/gpu-mem), compute
// time in percent of one GPU, processors in thousandths, host memory in MiB. A node's GPUs are
// known by their index.
#ifndef CGPU_PLACEMENT_MODEL_H_
#define CGPU_PLACEMENT_MODEL_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cgpu::placement {

inline constexpr std::uint32_t kWholeCompute = 100;  // percent
inline constexpr std::uint32_t kMaxSlices = 20;      // of one GPU, as in cGPU's contract

struct Gpu {
  std::uint32_t memory = 0;       // all of it
  std::uint32_t memory_used = 0;  // more than `memory` where a GPU was replaced by a smaller one
  std::uint32_t compute_used = 0;
  std::uint32_t slices = 0;  // containers that have a part of it
  bool whole = false;        // one container has all of it
  bool healthy = true;
  bool exclusive = false;  // for requests for whole GPUs alone

  [[nodiscard]] std::uint32_t memory_free() const {
    return memory_used < memory ? memory - memory_used : 0;
  }
  [[nodiscard]] std::uint32_t compute_free() const {
    return compute_used < kWholeCompute ? kWholeCompute - compute_used : 0;
  }
  bool operator==(const Gpu&) const = default;
};

// Amounts that a caller who does not track processors or host memory leaves as they are.
inline constexpr std::uint64_t kPlenty = std::numeric_limits<std::uint64_t>::max();

struct Node {
  std::string name;
  std::string model;  // of its GPUs
  std::uint64_t cpu_free = kPlenty;
  std::uint64_t host_memory_free = kPlenty;
  std::vector<Gpu> gpus;
};

struct Request {
  std::uint32_t gpus = 1;     // different GPUs of one node
  std::uint32_t memory = 0;   // of each
  std::uint32_t compute = 0;  // of each; 0: no promise
  std::uint32_t slices = 1;   // containers of it that run at the same time
  bool whole = false;         // GPUs that no other container has a part of
  std::uint64_t cpu = 0;
  std::uint64_t host_memory = 0;
  std::vector<std::string> models;  // that will do; empty: any

  bool operator==(const Request&) const = default;
};

// Returns true if the node's GPUs are of a model that will do.
[[nodiscard]] bool HasModel(const Node& node, const Request& request);

// Takes what `request` asks of one GPU, which it fits on.
void Take(Gpu& gpu, const Request& request);

// Takes what `request` asks of the GPUs with these indexes, which it fits on.
void Take(Node& node, const Request& request, const std::vector<std::uint32_t>& gpus);

}  // namespace cgpu::placement

#endif  // CGPU_PLACEMENT_MODEL_H_
