// Tells whether a request fits on a node, and if not, how far the nearest GPU is from it.
#ifndef CGPU_PLACEMENT_FIT_H_
#define CGPU_PLACEMENT_FIT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "placement/model.h"

namespace cgpu::placement {

// The first thing, in this order, that a GPU or a node lacks for a request.
enum class Lack {
  kNothing,
  kModel,       // the node's GPUs are of another model
  kCpu,         // of the node
  kHostMemory,  // of the node
  kGpus,        // the node has fewer GPUs than asked for
  kHealth,      // the GPU is not healthy
  kExclusive,   // the GPU is given as a whole alone
  kWhole,       // one container has the GPU alone
  kShared,      // the request is for a whole GPU, and others have a part of it
  kSlices,      // the GPU would have more containers than it may have
  kMemory,
  kCompute,
};

[[nodiscard]] Lack LackOf(const Gpu& gpu, const Request& request);

struct Fit {
  Lack lack = Lack::kNothing;
  std::uint32_t gpu = 0;   // index of the nearest GPU that does not fit, where the lack is a GPU's
  std::uint32_t fits = 0;  // GPUs that fit
};

// A node fits if at least `request.gpus` of its GPUs fit and it has the rest.
[[nodiscard]] Fit Judge(const Node& node, const Request& request);

// Returns the reason in words, for example "GPU 2 has 3 of 4 GiB free", for a fit that lacks
// something. `unit` is the unit of GPU memory.
[[nodiscard]] std::string Explain(const Node& node, const Request& request, const Fit& fit,
                                  std::string_view unit);

}  // namespace cgpu::placement

#endif  // CGPU_PLACEMENT_FIT_H_
