#include "placement/policy.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "placement/fit.h"

namespace cgpu::placement {
namespace {

std::uint64_t SumOf(const Node& node, std::uint32_t Gpu::* amount) {
  return std::accumulate(node.gpus.begin(), node.gpus.end(), std::uint64_t{0},
                         [&](std::uint64_t sum, const Gpu& gpu) { return sum + gpu.*amount; });
}

// Returns how much of the memory is used, 0 to `most`.
int Filled(std::uint64_t used, std::uint64_t all, int most) {
  return all == 0 ? most : static_cast<int>(used * static_cast<unsigned>(most) / all);
}

// Returns the GPUs that fit, the best first by `key`, lower is better; equals in their order.
template <class Key>
std::vector<std::uint32_t> Best(const Node& node, const Request& request, Key key) {
  std::vector<std::uint32_t> fitting;
  for (std::uint32_t i = 0; i < node.gpus.size(); ++i) {
    if (LackOf(node.gpus[i], request) == Lack::kNothing) {
      fitting.push_back(i);
    }
  }
  std::sort(fitting.begin(), fitting.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(key(a), a) < std::pair(key(b), b);
  });
  fitting.resize(std::min<std::size_t>(fitting.size(), request.gpus));
  return fitting;
}

struct Fill {
  int gpus = 0;  // of the chosen ones: 0 to kMaxScore
  int node = 0;  // of all of them
};

// Returns how full the chosen GPUs and the node are once the request is there.
Fill FillAfter(const Node& node, const Request& request, const std::vector<std::uint32_t>& gpus) {
  Node after = node;
  Take(after, request, gpus);
  std::uint64_t used = 0;
  std::uint64_t all = 0;
  for (const std::uint32_t index : gpus) {
    used += after.gpus[index].memory_used;
    all += after.gpus[index].memory;
  }
  return {Filled(used, all, kMaxScore),
          Filled(SumOf(after, &Gpu::memory_used), SumOf(after, &Gpu::memory), kMaxScore)};
}

}  // namespace

Choice ChooseBinpack(const Node& node, const Request& request) {
  Choice choice;
  choice.gpus =
      Best(node, request, [&](std::uint32_t index) { return node.gpus[index].memory_free(); });
  const Fill fill = FillAfter(node, request, choice.gpus);
  choice.score = (3 * fill.gpus + fill.node) / 4;
  return choice;
}

Choice ChooseSpread(const Node& node, const Request& request,
                    const std::vector<std::uint32_t>& replicas) {
  const auto replicas_on = [&](std::uint32_t index) {
    return index < replicas.size() ? replicas[index] : 0;
  };
  Choice choice;
  choice.gpus = Best(node, request, [&](std::uint32_t index) {
    return std::pair(replicas_on(index), ~node.gpus[index].memory_free());
  });
  const bool shares_gpu = std::any_of(choice.gpus.begin(), choice.gpus.end(),
                                      [&](std::uint32_t index) { return replicas_on(index) != 0; });
  const bool shares_node =
      std::any_of(replicas.begin(), replicas.end(), [](std::uint32_t count) { return count != 0; });
  const Fill fill = FillAfter(node, request, choice.gpus);
  const int free = kMaxScore - (fill.gpus + fill.node) / 2;
  // A node without a replica is better than any with one, and the same for GPUs.
  const int base = shares_gpu ? 0 : shares_node ? kMaxScore / 3 : 2 * kMaxScore / 3;
  choice.score = base + free / 3;
  return choice;
}

}  // namespace cgpu::placement
