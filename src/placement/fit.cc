#include "placement/fit.h"

#include <algorithm>

namespace cgpu::placement {
namespace {

Lack LackOfNode(const Node& node, const Request& request) {
  if (!HasModel(node, request)) {
    return Lack::kModel;
  }
  if (node.cpu_free < request.cpu) {
    return Lack::kCpu;
  }
  if (node.host_memory_free < request.host_memory) {
    return Lack::kHostMemory;
  }
  return node.gpus.size() < request.gpus ? Lack::kGpus : Lack::kNothing;
}

// Returns true if `a` is nearer to the request than `b`; neither fits. A GPU that lacks something
// later in the order of checks passed more of them.
bool IsNearer(const Gpu& a, Lack lack_a, const Gpu& b, Lack lack_b) {
  if (lack_a != lack_b) {
    return lack_a > lack_b;
  }
  return lack_a == Lack::kCompute ? a.compute_free() > b.compute_free()
                                  : a.memory_free() > b.memory_free();
}

std::string OfWanted(std::uint64_t has, std::uint64_t wants, std::string_view unit) {
  std::string text = std::to_string(has) + " of " + std::to_string(wants);
  return text.append(unit);
}

}  // namespace

Lack LackOf(const Gpu& gpu, const Request& request) {
  if (!gpu.healthy) {
    return Lack::kHealth;
  }
  if (gpu.exclusive && !request.whole) {
    return Lack::kExclusive;
  }
  if (gpu.whole) {
    return Lack::kWhole;
  }
  if (request.whole) {
    return gpu.slices == 0 ? Lack::kNothing : Lack::kShared;
  }
  if (gpu.slices + request.slices > kMaxSlices) {
    return Lack::kSlices;
  }
  if (gpu.memory_free() < request.memory) {
    return Lack::kMemory;
  }
  return gpu.compute_free() < request.compute ? Lack::kCompute : Lack::kNothing;
}

Fit Judge(const Node& node, const Request& request) {
  Fit fit{LackOfNode(node, request), 0, 0};
  if (fit.lack != Lack::kNothing) {
    return fit;
  }
  Lack nearest = Lack::kNothing;
  for (std::uint32_t i = 0; i < node.gpus.size(); ++i) {
    const Lack lack = LackOf(node.gpus[i], request);
    if (lack == Lack::kNothing) {
      ++fit.fits;
    } else if (nearest == Lack::kNothing ||
               IsNearer(node.gpus[i], lack, node.gpus[fit.gpu], nearest)) {
      nearest = lack;
      fit.gpu = i;
    }
  }
  fit.lack = fit.fits >= request.gpus ? Lack::kNothing : nearest;
  return fit;
}

std::string Explain(const Node& node, const Request& request, const Fit& fit,
                    std::string_view unit) {
  const auto of_gpu = [&](const std::string& what) {
    std::string text = "GPU " + std::to_string(fit.gpu) + " " + what;
    if (request.gpus > 1) {
      text += "; " + OfWanted(fit.fits, request.gpus, " GPUs fit");
    }
    return text;
  };
  const auto& gpus = node.gpus;
  switch (fit.lack) {
    case Lack::kNothing:
      return "it fits";
    case Lack::kModel:
      return "its GPUs are " + (node.model.empty() ? "of no known model" : node.model);
    case Lack::kCpu:
      return OfWanted(node.cpu_free, request.cpu, "m processors free");
    case Lack::kHostMemory:
      return OfWanted(node.host_memory_free, request.host_memory, " MiB of memory free");
    case Lack::kGpus:
      return "it has " + OfWanted(gpus.size(), request.gpus, " GPUs");
    case Lack::kHealth:
      return of_gpu("is not healthy");
    case Lack::kExclusive:
      return of_gpu("is given as a whole alone");
    case Lack::kWhole:
      return of_gpu("belongs to one container");
    case Lack::kShared:
      return of_gpu("is shared by " + std::to_string(gpus[fit.gpu].slices) +
                    (gpus[fit.gpu].slices == 1 ? " container" : " containers"));
    case Lack::kSlices:
      return of_gpu("has " + std::to_string(gpus[fit.gpu].slices) + " of at most " +
                    std::to_string(kMaxSlices) + " containers");
    case Lack::kMemory:
      return of_gpu("has " +
                    OfWanted(gpus[fit.gpu].memory_free(), request.memory, " ").append(unit) +
                    " free");
    case Lack::kCompute:
      return of_gpu("has " +
                    OfWanted(gpus[fit.gpu].compute_free(), request.compute, " % of its time free"));
  }
  return "";
}

}  // namespace cgpu::placement
