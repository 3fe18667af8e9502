// Builders for the tests of placement.
#ifndef CGPU_PLACEMENT_TESTING_H_
#define CGPU_PLACEMENT_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "placement/model.h"

namespace cgpu::placement {

// Returns a node whose GPUs have `memory` units each, of which `used` are used.
inline Node MakeNode(std::string name, std::uint32_t memory,
                     const std::vector<std::uint32_t>& used) {
  Node node;
  node.name = std::move(name);
  for (const std::uint32_t units : used) {
    Gpu gpu;
    gpu.memory = memory;
    gpu.memory_used = units;
    gpu.slices = units == 0 ? 0 : 1;
    node.gpus.push_back(gpu);
  }
  return node;
}

inline Request Ask(std::uint32_t memory, std::uint32_t gpus = 1, std::uint32_t compute = 0) {
  Request request;
  request.memory = memory;
  request.gpus = gpus;
  request.compute = compute;
  return request;
}

inline Request AskWhole(std::uint32_t gpus = 1) {
  Request request;
  request.gpus = gpus;
  request.whole = true;
  return request;
}

}  // namespace cgpu::placement

#endif  // CGPU_PLACEMENT_TESTING_H_
