#include "kube/state.h"

#include <algorithm>
#include <utility>

#include "placement/fit.h"

namespace cgpu::kube {
namespace {

constexpr char kUnit[] = "GiB";

// Returns the indexes of the decision's GPUs on the node. A GPU that is no longer there is left
// out.
std::vector<std::uint32_t> IndexesOf(const NodeInfo& node, const Decision& decision) {
  std::vector<std::uint32_t> indexes;
  for (const std::string& uuid : decision.gpus) {
    for (std::uint32_t i = 0; i < node.gpus.size(); ++i) {
      if (node.gpus[i].uuid == uuid) {
        indexes.push_back(i);
      }
    }
  }
  return indexes;
}

}  // namespace

void ClusterState::SetNode(const NodeInfo& info) {
  const auto [found, is_new] = nodes_.try_emplace(info.name);
  NodeState& node = found->second;
  if (is_new) {
    for (const auto& [uid, holder] : holders_) {
      if (holder.decision.node == info.name) {
        node.holders.insert(uid);
      }
    }
  }
  node.info = info;
  Recount(node);
}

void ClusterState::RemoveNode(const std::string& name) {
  nodes_.erase(name);
}

// Counts the use of the node's GPUs from its holders.
void ClusterState::Recount(NodeState& node) const {
  node.free = {};
  node.free.name = node.info.name;
  node.free.model = node.info.model;
  for (const NodeGpu& gpu : node.info.gpus) {
    placement::Gpu one;
    one.memory = gpu.units();
    one.healthy = gpu.healthy;
    node.free.gpus.push_back(one);
  }
  for (const std::string& uid : node.holders) {
    const Holder& holder = holders_.at(uid);
    placement::Take(node.free, holder.request, IndexesOf(node.info, holder.decision));
  }
}

void ClusterState::Hold(const std::string& uid, Holder holder) {
  LetGo(uid);
  const auto node = nodes_.find(holder.decision.node);
  holders_[uid] = std::move(holder);
  if (node != nodes_.end()) {
    node->second.holders.insert(uid);
    Recount(node->second);
  }
}

void ClusterState::LetGo(const std::string& uid) {
  const auto found = holders_.find(uid);
  if (found == holders_.end()) {
    return;
  }
  const auto node = nodes_.find(found->second.decision.node);
  holders_.erase(found);
  if (node != nodes_.end()) {
    node->second.holders.erase(uid);
    Recount(node->second);
  }
}

void ClusterState::SetPod(const PodAsk& pod, const Key& key) {
  if (pod.ended) {
    LetGo(pod.uid);
    return;
  }
  if (pod.decision.empty()) {
    return;  // nothing is decided, or not yet seen: an assumption stays
  }
  auto decision = DecodeDecision(pod.decision, key);
  if (!decision.ok() || decision->pod != pod.uid ||
      (!pod.node.empty() && pod.node != decision->node)) {
    return;
  }
  const auto known = holders_.find(pod.uid);
  if (known != holders_.end() && !known->second.assumed) {
    return;  // a decision does not change
  }
  // A decision that is written but not yet bound may be another's that ended in between.
  const bool bound = !pod.node.empty();
  const Clock::time_point until =
      known != holders_.end() ? known->second.until : Clock::time_point::max();
  const placement::Request takes = decision->Takes();
  Hold(pod.uid, {*std::move(decision), takes, pod.owner, !bound, until});
}

void ClusterState::RemovePod(const std::string& uid) {
  LetGo(uid);
}

std::string ClusterState::WhyNot(const PodAsk& pod, const std::string& name) const {
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.info.gpus.empty()) {
    return "it has no GPUs of cgpu";
  }
  const NodeState& node = found->second;
  const placement::Request request = RequestOf(pod);
  switch (node.info.mode) {
    case Mode::kNone:
      return "its GPUs are not shared: it lacks the label ack.node.gpu.schedule=cgpu or =core_mem";
    case Mode::kCgpu:
    case Mode::kShare:
      if (AsksCompute(pod)) {
        return "it promises no compute time: that takes the label ack.node.gpu.schedule=core_mem";
      }
      break;
    case Mode::kCoreMem:
      if (AsksWeight(pod)) {
        return "its GPUs share their time by percentages: weights take the label "
               "ack.node.gpu.schedule=cgpu";
      }
      break;
  }
  const placement::Fit fit = placement::Judge(node.free, request);
  return fit.lack == placement::Lack::kNothing ? ""
                                               : placement::Explain(node.free, request, fit, kUnit);
}

placement::Choice ClusterState::ChooseOn(const NodeState& node, const PodAsk& pod) const {
  const placement::Request request = RequestOf(pod);
  if (node.info.placement != Placement::kSpread) {
    return placement::ChooseBinpack(node.free, request);
  }
  std::vector<std::uint32_t> replicas(node.info.gpus.size(), 0);
  for (const std::string& uid : node.holders) {
    const Holder& holder = holders_.at(uid);
    if (!pod.owner.empty() && holder.owner == pod.owner) {
      for (const std::uint32_t index : IndexesOf(node.info, holder.decision)) {
        ++replicas[index];
      }
    }
  }
  return placement::ChooseSpread(node.free, request, replicas);
}

int ClusterState::Score(const PodAsk& pod, const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? 0 : ChooseOn(found->second, pod).score;
}

Result<Decision> ClusterState::Assume(const PodAsk& pod, const std::string& name,
                                      Clock::time_point now) {
  if (const auto known = holders_.find(pod.uid); known != holders_.end()) {
    if (known->second.decision.node != name) {
      return Error{Code::kConflict, 0, "the pod was given GPUs of " + known->second.decision.node,
                   "try again"};
    }
    return known->second.decision;
  }
  if (const std::string why = WhyNot(pod, name); !why.empty()) {
    return Error{Code::kExhausted, 0, name + ": " + why, "the scheduler tries again"};
  }
  const NodeState& node = nodes_.at(name);
  Decision decision;
  decision.pod = pod.uid;
  decision.node = name;
  for (const std::uint32_t index : ChooseOn(node, pod).gpus) {
    decision.gpus.push_back(node.info.gpus[index].uuid);
  }
  decision.memory = RequestOf(pod).memory;
  decision.compute = RequestOf(pod).compute;
  decision.slices = RequestOf(pod).slices;
  decision.containers = pod.containers;
  Hold(pod.uid, {decision, decision.Takes(), pod.owner, true, now + kAssumed});
  return decision;
}

void ClusterState::Forget(const std::string& uid) {
  if (const auto found = holders_.find(uid); found != holders_.end() && found->second.assumed) {
    LetGo(uid);
  }
}

std::vector<std::string> ClusterState::Expire(Clock::time_point now) {
  std::vector<std::string> expired;
  for (const auto& [uid, holder] : holders_) {
    if (holder.assumed && holder.until <= now) {
      expired.push_back(uid);
    }
  }
  for (const std::string& uid : expired) {
    LetGo(uid);
  }
  return expired;
}

std::uint32_t ClusterState::LargestGpu() const {
  std::uint32_t largest = 0;
  for (const auto& [name, node] : nodes_) {
    for (const NodeGpu& gpu : node.info.gpus) {
      largest = std::max(largest, gpu.units());
    }
  }
  return largest;
}

std::map<std::string, ClusterState::Use> ClusterState::UseOf(const std::string& name) const {
  std::map<std::string, Use> use;
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    return use;
  }
  for (std::size_t i = 0; i < found->second.info.gpus.size(); ++i) {
    const placement::Gpu& gpu = found->second.free.gpus[i];
    use[found->second.info.gpus[i].uuid] = {gpu.memory_used, gpu.compute_used, gpu.slices};
  }
  return use;
}

}  // namespace cgpu::kube
