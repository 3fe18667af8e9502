#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "placement/fit.h"
#include "placement/policy.h"

namespace cgpu::placement {
namespace {

constexpr double kThousand = 1000;

// Returns the free memory of a GPU in thousandths of it. None of it counts while no pod can get it.
double FreeOf(const Gpu& gpu) {
  return gpu.memory == 0 || gpu.whole || !gpu.healthy ? 0
                                                      : kThousand * gpu.memory_free() / gpu.memory;
}

bool Fits(const Gpu& gpu, const Request& request) {
  return LackOf(gpu, request) == Lack::kNothing;
}

Gpu After(Gpu gpu, const Request& request) {
  Take(gpu, request);
  return gpu;
}

// How one typical request finds a node.
struct Found {
  bool node_fits = false;  // apart from its GPUs
  std::uint32_t gpus = 0;  // how many fit
  double unusable = 0;     // free memory of those that do not fit, in thousandths

  // Returns what of `free`, the free memory of all GPUs, the request cannot use. All of it is lost
  // to a request that does not fit; requests without a GPU use none.
  [[nodiscard]] double Lost(const Request& request, double free) const {
    return node_fits && request.gpus != 0 && gpus >= request.gpus ? unusable : free;
  }
  void Change(const Request& request, const Gpu& before, const Gpu& after) {
    const bool fitted = Fits(before, request);
    const bool fits = Fits(after, request);
    gpus = gpus - (fitted ? 1 : 0) + (fits ? 1 : 0);
    unusable += (fits ? 0 : FreeOf(after)) - (fitted ? 0 : FreeOf(before));
  }
};

std::vector<Found> FindAll(const Node& node, const std::vector<Typical>& typical) {
  std::vector<Found> all;
  all.reserve(typical.size());
  for (const Typical& one : typical) {
    Found found;
    found.node_fits = node.cpu_free >= one.request.cpu && HasModel(node, one.request);
    for (const Gpu& gpu : node.gpus) {
      const bool fits = Fits(gpu, one.request);
      found.gpus += fits ? 1 : 0;
      found.unusable += fits ? 0 : FreeOf(gpu);
    }
    all.push_back(found);
  }
  return all;
}

double Sum(const std::vector<Found>& found, const std::vector<Typical>& typical, double free) {
  double sum = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    sum += typical[i].weight * found[i].Lost(typical[i].request, free);
  }
  return sum;
}

double FreeOf(const Node& node) {
  double free = 0;
  for (const Gpu& gpu : node.gpus) {
    free += FreeOf(gpu);
  }
  return free;
}

// The scale of the authors' simulator: a GPU's worth less lost gives 73, one more 26, none 50.
int ScoreOf(double less_lost) {
  return static_cast<int>(kMaxScore / (1 + std::exp(-less_lost / kThousand)));
}

// Returns the GPU beside those in `taken` after whose choice least is lost; the first of equals.
std::uint32_t NextGpu(const std::vector<Typical>& typical, const Node& node, const Request& request,
                      const std::vector<std::uint32_t>& taken, const std::vector<Found>& found,
                      double free, double before) {
  int best_score = -1;
  std::uint32_t best = 0;
  for (std::uint32_t index = 0; index < node.gpus.size(); ++index) {
    const Gpu& gpu = node.gpus[index];
    if (!Fits(gpu, request) || std::find(taken.begin(), taken.end(), index) != taken.end()) {
      continue;
    }
    if (request.whole) {
      return index;  // free GPUs are alike
    }
    const Gpu after = After(gpu, request);
    const double free_after = free - FreeOf(gpu) + FreeOf(after);
    double lost = 0;
    for (std::size_t k = 0; k < found.size(); ++k) {
      Found changed = found[k];
      changed.Change(typical[k].request, gpu, after);
      lost += typical[k].weight * changed.Lost(typical[k].request, free_after);
    }
    if (const int score = ScoreOf(before - lost); score > best_score) {
      best_score = score;
      best = index;
    }
  }
  return best;
}

}  // namespace

std::vector<Typical> TypicalOf(const std::vector<Request>& requests, unsigned percent) {
  const auto key = [](const Request& request) {
    return std::tuple(request.gpus, request.memory, request.compute, request.slices, request.whole,
                      request.cpu, request.models);
  };
  std::map<decltype(key(requests[0])), Typical> counts;
  for (const Request& request : requests) {
    Typical& typical = counts[key(request)];
    typical.request = request;
    typical.weight += 1;
  }
  std::vector<Typical> all;
  all.reserve(counts.size());
  for (auto& [name, typical] : counts) {
    all.push_back(std::move(typical));
  }
  std::sort(all.begin(), all.end(), [&](const Typical& a, const Typical& b) {
    return std::pair(-a.weight, key(a.request)) < std::pair(-b.weight, key(b.request));
  });
  const double enough = static_cast<double>(requests.size()) * percent / 100;
  double sum = 0;
  std::size_t taken = 0;
  while (taken < all.size() && sum < enough) {
    sum += all[taken++].weight;
  }
  all.resize(taken);
  for (Typical& typical : all) {
    typical.weight /= sum;
  }
  return all;
}

double Fragmentation::Amount(const Node& node) const {
  return Sum(FindAll(node, typical_), typical_, FreeOf(node));
}

Choice Fragmentation::Choose(const Node& node, const Request& request) const {
  const double before = Amount(node);
  Node rest = node;
  Take(rest, request, {});
  std::vector<Found> found = FindAll(rest, typical_);
  double free = FreeOf(rest);
  Choice choice;
  for (std::uint32_t i = 0; i < request.gpus; ++i) {
    const std::uint32_t next = NextGpu(typical_, rest, request, choice.gpus, found, free, before);
    const Gpu after = After(rest.gpus[next], request);
    for (std::size_t k = 0; k < found.size(); ++k) {
      found[k].Change(typical_[k].request, rest.gpus[next], after);
    }
    free += FreeOf(after) - FreeOf(rest.gpus[next]);
    rest.gpus[next] = after;
    choice.gpus.push_back(next);
  }
  choice.score = ScoreOf(before - Sum(found, typical_, free));
  choice.tie = ChooseBinpack(node, request).score;
  return choice;
}

}  // namespace cgpu::placement
