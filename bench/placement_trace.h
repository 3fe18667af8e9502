// Reads a recorded workload for the placement benchmarks: nodes and pods as comma-separated values,
// with the columns of Alibaba's cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata):
//   nodes: sn,cpu_milli,memory_mib,gpu,model
//   pods:  name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,...
#ifndef CGPU_BENCH_PLACEMENT_TRACE_H_
#define CGPU_BENCH_PLACEMENT_TRACE_H_

#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "placement/model.h"

namespace cgpu::bench {

struct Trace {
  std::vector<placement::Node> nodes;
  std::vector<placement::Request> pods;
};

// Reads the files that NODES and PODS name in the environment. Each GPU has 1000 units of memory.
[[nodiscard]] Result<Trace> ReadTrace();

// Returns what a request takes of GPUs, in thousandths of one.
[[nodiscard]] std::uint64_t Demand(const placement::Request& request);
[[nodiscard]] std::uint64_t Capacity(const std::vector<placement::Node>& nodes);

// Returns the pods in random order, and as many more of them, drawn at random, as it takes until
// they ask for `percent` of the nodes' GPUs. This is the protocol of Weng et al. (USENIX ATC 2023).
[[nodiscard]] std::vector<placement::Request> Inflate(const Trace& trace, unsigned percent,
                                                      std::mt19937_64& random);

}  // namespace cgpu::bench

#endif  // CGPU_BENCH_PLACEMENT_TRACE_H_
