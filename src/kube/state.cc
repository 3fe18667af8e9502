#include "kube/state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "placement/fit.h"

namespace cgpu::kube {
namespace {

constexpr char kUnit[] = "GiB";
constexpr std::size_t kLast = 1000;     // requests that typical ones are found among
constexpr std::size_t kLearnAnew = 64;  // after so many

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

// Returns the GiB of the smallest of the decision's GPUs.
std::uint32_t SmallestOf(const NodeInfo& node, const Decision& decision) {
  std::uint32_t smallest = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t index : IndexesOf(node, decision)) {
    smallest = std::min(smallest, node.gpus[index].units());
  }
  return smallest;
}

}  // namespace

void ClusterState::SetNode(const NodeInfo& info, const Key& key) {
  const auto [found, is_new] = nodes_.try_emplace(info.name);
  NodeState& node = found->second;
  if (!is_new && node.info == info) {
    return;
  }
  if (is_new) {
    for (const auto& [uid, holder] : holders_) {
      if (holder.decision.node == info.name) {
        node.holders.insert(uid);
      }
    }
  }
  node.info = info;
  Recount(node);
  with_room_.insert(info.name);
  SetAdmitted(info, key);
}

void ClusterState::SetAdmitted(const NodeInfo& info, const Key& key) {
  std::map<std::string, std::string> before = std::exchange(nodes_[info.name].admitted, {});
  for (const std::string& text : info.admitted) {
    std::string uid;
    if (const auto known = before.extract(text); !known.empty()) {
      uid = known.mapped();
    } else if (auto decision = DecodeDecision(text, key);
               decision.ok() && decision->node == info.name) {
      uid = decision->pod;
      if (Holder* const holder = Known(uid, *std::move(decision))) {
        holder->admitted = true;
      }
    }
    nodes_[info.name].admitted[text] = uid;
  }
  for (const auto& [text, uid] : before) {
    if (const auto holder = holders_.find(uid);
        holder != holders_.end() && holder->second.decision.node == info.name) {
      holder->second.admitted = false;
      LetGoIfFree(uid);
    }
  }
}

void ClusterState::RemoveNode(const std::string& name) {
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) {
    return;
  }
  const auto admitted = std::move(node->second.admitted);
  nodes_.erase(node);
  for (const auto& [text, uid] : admitted) {
    if (const auto holder = holders_.find(uid); holder != holders_.end()) {
      holder->second.admitted = false;
      LetGoIfFree(uid);
    }
  }
}

// Counts the use of the node's GPUs from its holders.
void ClusterState::Recount(NodeState& node) const {
  node.free = {};
  node.bytes = 0;
  node.free.name = node.info.name;
  node.free.model = node.info.model;
  for (const NodeGpu& gpu : node.info.gpus) {
    placement::Gpu one;
    one.memory = gpu.units();
    one.healthy = gpu.healthy;
    one.exclusive = gpu.exclusive;
    node.free.gpus.push_back(one);
  }
  for (const std::string& uid : node.holders) {
    const Holder& holder = holders_.at(uid);
    placement::Take(node.free, holder.decision.Takes(), IndexesOf(node.info, holder.decision));
    node.bytes += holder.bytes;
  }
}

void ClusterState::Learn(const placement::Request& request) {
  if (last_.size() < kLast) {
    last_.push_back(request);
  } else {
    last_[learned_ % kLast] = request;
  }
  ++learned_;
  if (learned_ <= kLearnAnew || learned_ % kLearnAnew == 0) {
    fragmentation_ = placement::Fragmentation(placement::TypicalOf(last_));
  }
}

void ClusterState::Hold(const std::string& uid, Holder holder) {
  LetGo(uid);
  Learn(holder.decision.Takes());
  const auto node = nodes_.find(holder.decision.node);
  holder.bytes = BytesOf(holder.decision);
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
    with_room_.insert(node->first);
  }
}

void ClusterState::LetGoIfFree(const std::string& uid) {
  const auto found = holders_.find(uid);
  if (found != holders_.end() && !found->second.assumed && !found->second.on_pod &&
      !found->second.admitted) {
    LetGo(uid);
  }
}

ClusterState::Holder* ClusterState::Known(const std::string& uid, Decision decision) {
  const auto known = holders_.find(uid);
  if (known != holders_.end()) {
    Holder& holder = known->second;
    if (holder.decision.node == decision.node && holder.decision.gpus == decision.gpus) {
      return &holder;
    }
    if (holder.on_pod || holder.admitted) {
      return nullptr;
    }
  }
  std::string owner = known == holders_.end() ? "" : known->second.owner;
  Hold(uid, {std::move(decision), std::move(owner), false, false, false, {}});
  return &holders_.at(uid);
}

void ClusterState::SetPod(const PodAsk& pod, const Key& key) {
  if (pod.ended) {
    RemovePod(pod.uid);
    return;
  }
  if (const auto known = holders_.find(pod.uid); known != holders_.end()) {
    Holder& holder = known->second;
    // A decision does not change. One that was assumed holds once the pod is bound where it was
    // decided, whatever has become of its annotation.
    if (holder.on_pod || holder.admitted || holder.decision.node == pod.node) {
      holder.owner = pod.owner;
      holder.on_pod = !pod.node.empty();
      holder.assumed = false;
      return;
    }
  }
  if (pod.decision.empty() || pod.node.empty() || !pod.asks()) {
    return;  // nothing is decided, or not yet seen: an assumption stays
  }
  auto decision = DecodeDecision(pod.decision, key);
  if (!decision.ok() || decision->pod != pod.uid || pod.node != decision->node) {
    return;
  }
  if (Holder* const holder = Known(pod.uid, *std::move(decision))) {
    holder->owner = pod.owner;
    holder->on_pod = true;
    holder->assumed = false;
  }
}

void ClusterState::RemovePod(const std::string& uid) {
  if (const auto known = holders_.find(uid); known != holders_.end()) {
    known->second.on_pod = false;
    known->second.assumed = false;
    LetGoIfFree(uid);
  }
}

std::string ClusterState::WhyNot(const PodAsk& pod, const std::string& name) const {
  if (const auto known = holders_.find(pod.uid); known != holders_.end()) {
    // It may be bound there already: the answer was lost.
    const std::string& there = known->second.decision.node;
    return there == name ? "" : "the pod was given GPUs of " + there + " a moment ago";
  }
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.info.gpus.empty()) {
    return "it has no GPUs of cgpu";
  }
  return WhyNot(pod, found->second);
}

std::string ClusterState::WhyNot(const PodAsk& pod, const NodeState& node) const {
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
  if (fit.lack != placement::Lack::kNothing) {
    return placement::Explain(node.free, request, fit, kUnit);
  }
  return node.bytes + BytesFor(pod, node) <= kMostDecisionsDecided
             ? ""
             : "its annotation has no room for what the pod's containers ask for: its pods have "
               "too "
               "many containers with a part of a GPU";
}

std::size_t ClusterState::BytesFor(const PodAsk& pod, const NodeState& node) {
  const placement::Request request = RequestOf(pod);
  Decision decision;
  decision.pod = pod.uid;
  decision.node = node.info.name;
  decision.gpus.assign(pod.gpus, node.info.gpus.empty() ? "" : node.info.gpus[0].uuid);
  decision.memory = request.memory;
  decision.compute = request.compute;
  decision.slices = request.slices;
  decision.containers = pod.containers;
  return BytesOf(decision);
}

placement::Choice ClusterState::ChooseOn(const NodeState& node, const PodAsk& pod) const {
  const placement::Request request = RequestOf(pod);
  if (request.whole) {  // first of those that are for nothing else
    placement::Node exclusive = node.free;
    for (placement::Gpu& gpu : exclusive.gpus) {
      gpu.healthy = gpu.healthy && gpu.exclusive;
    }
    if (placement::Judge(exclusive, request).lack == placement::Lack::kNothing) {
      return ChooseAmong(exclusive, node, request, pod.owner);
    }
  }
  return ChooseAmong(node.free, node, request, pod.owner);
}

placement::Choice ClusterState::ChooseAmong(const placement::Node& free, const NodeState& node,
                                            const placement::Request& request,
                                            const std::string& owner) const {
  if (node.info.placement == Placement::kFragmentation) {
    return fragmentation_.Choose(free, request);
  }
  if (node.info.placement == Placement::kBinpack) {
    return placement::ChooseBinpack(free, request);
  }
  std::vector<std::uint32_t> replicas(node.info.gpus.size(), 0);
  for (const std::string& uid : node.holders) {
    const Holder& holder = holders_.at(uid);
    if (!owner.empty() && holder.owner == owner) {
      for (const std::uint32_t index : IndexesOf(node.info, holder.decision)) {
        ++replicas[index];
      }
    }
  }
  return placement::ChooseSpread(free, request, replicas);
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
  const placement::Request request = RequestOf(pod);
  decision.memory = request.memory;
  decision.compute = request.compute;
  decision.slices = request.slices;
  decision.containers = pod.containers;
  decision.isolated = node.info.mode != Mode::kShare || pod.whole();
  if (pod.whole()) {
    decision.memory = SmallestOf(node.info, decision);
    decision.containers[0].memory = decision.memory * pod.gpus;
  }
  Hold(pod.uid, {decision, pod.owner, true, false, false, now + kAssumed});
  return decision;
}

void ClusterState::Forget(const std::string& uid) {
  if (const auto found = holders_.find(uid); found != holders_.end()) {
    found->second.assumed = false;
    LetGoIfFree(uid);
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
    Forget(uid);
  }
  return expired;
}

std::vector<const PodAsk*> ClusterState::TakeThoseWithRoom(
    const std::vector<const PodAsk*>& waiting) {
  std::vector<const PodAsk*> left = waiting;
  std::vector<const PodAsk*> with_room;
  for (const std::string& name : std::exchange(with_room_, {})) {
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) {
      continue;
    }
    NodeState node = found->second;
    const auto fits = [&](const PodAsk* pod) {
      if (!WhyNot(*pod, node).empty()) {
        return false;
      }
      placement::Take(node.free, RequestOf(*pod), ChooseOn(node, *pod).gpus);
      node.bytes += BytesFor(*pod, node);
      with_room.push_back(pod);
      return true;
    };
    left.erase(std::remove_if(left.begin(), left.end(), fits), left.end());
  }
  return with_room;
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
