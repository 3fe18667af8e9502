#include "bench/placement_picker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "placement/fit.h"

namespace cgpu::bench {
namespace {

std::uint64_t More(std::uint64_t free, std::uint64_t given) {
  return free == placement::kPlenty ? placement::kPlenty : free + given;
}

}  // namespace

Picker::Picker(std::vector<placement::Node> nodes, Choose choose)
    : nodes_(std::move(nodes)), choose_(std::move(choose)) {
  std::sort(nodes_.begin(), nodes_.end(),
            [](const placement::Node& a, const placement::Node& b) { return a.name < b.name; });
  while (leaves_ < nodes_.size()) {
    leaves_ *= 2;
  }
}

void Picker::Update(Scores& scores, std::size_t node, const placement::Request& request) const {
  std::size_t at = leaves_ + node;
  scores.tree[at] = -1;
  if (placement::Judge(nodes_[node], request).lack == placement::Lack::kNothing) {
    const placement::Choice choice = choose_(nodes_[node], request);
    scores.tree[at] =
        static_cast<std::int16_t>(choice.score * (placement::kMaxScore + 1) + choice.tie);
  }
  for (at /= 2; at != 0; at /= 2) {
    const auto higher = std::max(scores.tree[2 * at], scores.tree[2 * at + 1]);
    if (scores.tree[at] == higher) {
      break;
    }
    scores.tree[at] = higher;
  }
}

std::optional<Picker::Place> Picker::Find(const placement::Request& request) {
  const auto [found, is_new] =
      shapes_.try_emplace(Shape{request.gpus, request.memory, request.compute, request.slices,
                                request.whole, request.cpu, request.host_memory, request.models});
  Scores& scores = found->second;
  if (is_new) {
    scores.tree.assign(2 * leaves_, -1);
  }
  if (is_new || changed_.size() - scores.seen >= nodes_.size()) {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      Update(scores, node, request);
    }
  } else {
    const std::set<std::uint32_t> changed(
        changed_.begin() + static_cast<std::ptrdiff_t>(scores.seen), changed_.end());
    for (const std::uint32_t node : changed) {
      Update(scores, node, request);
    }
  }
  scores.seen = changed_.size();
  if (scores.tree[1] < 0) {
    return std::nullopt;
  }
  std::size_t at = 1;
  while (at < leaves_) {
    at = 2 * at + (scores.tree[2 * at] == scores.tree[at] ? 0 : 1);
  }
  const std::size_t node = at - leaves_;
  return Place{node, choose_(nodes_[node], request).gpus};
}

void Picker::Take(const Place& place, const placement::Request& request) {
  placement::Take(nodes_[place.node], request, place.gpus);
  changed_.push_back(static_cast<std::uint32_t>(place.node));
}

void Picker::GiveBack(const Place& place, const placement::Request& request) {
  placement::Node& node = nodes_[place.node];
  node.cpu_free = More(node.cpu_free, request.cpu);
  node.host_memory_free = More(node.host_memory_free, request.host_memory);
  for (const std::uint32_t index : place.gpus) {
    placement::Gpu& gpu = node.gpus[index];
    gpu.memory_used -= request.whole ? gpu.memory : request.memory;
    gpu.compute_used -= request.whole ? placement::kWholeCompute : request.compute;
    gpu.slices -= request.slices;
    gpu.whole = false;
  }
  changed_.push_back(static_cast<std::uint32_t>(place.node));
}

}  // namespace cgpu::bench
