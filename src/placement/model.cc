#include "placement/model.h"

#include <algorithm>

namespace cgpu::placement {
namespace {

std::uint64_t Less(std::uint64_t free, std::uint64_t taken) {
  return free == kPlenty ? kPlenty : free - taken;
}

}  // namespace

bool HasModel(const Node& node, const Request& request) {
  return request.models.empty() || std::find(request.models.begin(), request.models.end(),
                                             node.model) != request.models.end();
}

void Take(Gpu& gpu, const Request& request) {
  gpu.memory_used += request.whole ? gpu.memory : request.memory;
  gpu.compute_used += request.whole ? kWholeCompute : request.compute;
  gpu.slices += request.slices;
  gpu.whole = request.whole;
}

void Take(Node& node, const Request& request, const std::vector<std::uint32_t>& gpus) {
  node.cpu_free = Less(node.cpu_free, request.cpu);
  node.host_memory_free = Less(node.host_memory_free, request.host_memory);
  for (const std::uint32_t index : gpus) {
    Take(node.gpus[index], request);
  }
}

}  // namespace cgpu::placement
