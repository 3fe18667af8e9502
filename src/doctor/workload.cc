// Checks of what runs in a cluster: cgpu-scheduler, the Kubernetes nodes and the pods.
#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/kubectl.h"
#include "doctor/kubernetes.h"
#include "doctor/reading.h"
#include "kube/names.h"

namespace cgpu::doctor {
namespace {

constexpr std::array<std::string_view, 3> kModes = {"cgpu", "core_mem", "share"};  // values.yaml
constexpr std::uint64_t kClockSkew = 30;  // seconds that two clocks may differ
constexpr std::uint64_t kPatience = 300;  // seconds until a pod's wait is worth a word

// Returns seconds of Unix time of a time in RFC 3339, or 0.
std::uint64_t TimeOf(const std::string& text) {
  std::tm parts{};
  return strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr
             ? 0
             : static_cast<std::uint64_t>(timegm(&parts));
}

bool IsMode(const std::string& mode) {
  return std::ranges::find(kModes, mode) != kModes.end();
}

std::string NameOf(const Value& object) {
  return object["metadata"]["name"].Text();
}

std::string ModeOf(const Value& node) {
  return node["metadata"]["labels"][kube::kMode].Text();
}

Result<std::vector<Value>> Items(const Facts& facts, const std::vector<std::string>& words) {
  CGPU_ASSIGN_OR_RETURN(const auto list, GetObject(facts, words));
  return list["items"].Items();
}

// Returns the Kubernetes nodes that share their GPUs.
Result<std::vector<Value>> SharingNodes(const Facts& facts) {
  CGPU_ASSIGN_OR_RETURN(auto nodes, Items(facts, {"nodes"}));
  std::erase_if(nodes, [](const Value& node) { return !IsMode(ModeOf(node)); });
  return nodes;
}

// Judges the sharing nodes: wrong are those for which `is_wrong`.
template <typename IsWrong>
Finding EachNode(const Facts& facts, const std::string& right, const std::string& wrong,
                 const IsWrong& is_wrong) {
  const auto nodes = SharingNodes(facts);
  if (!nodes.ok()) {
    return Skipped(nodes.error().what);
  }
  std::vector<std::string> found;
  for (const Value& node : *nodes) {
    if (is_wrong(node)) {
      found.push_back(NameOf(node));
    }
  }
  return found.empty() ? Right(right) : Wrong(wrong + ": " + Joined(found));
}

bool HasNone(const Value& node, const char* resource) {
  const std::string amount = node["status"]["allocatable"][resource].Text();
  return amount.empty() || amount == "0";
}

Result<Value> Scheduler(const Facts& facts) {
  return GetObject(facts, {"deployments", "cgpu-scheduler", "-n", ReleaseNamespace(facts)});
}

Result<Value> Daemons(const Facts& facts) {
  return GetObject(facts, {"daemonsets", "cgpu-node", "-n", ReleaseNamespace(facts)});
}

// Returns the pods that ask for parts of GPUs and have not ended, with their names.
Result<std::vector<Value>> PodsWithParts(const Facts& facts) {
  CGPU_ASSIGN_OR_RETURN(auto pods, Items(facts, {"pods", "-A"}));
  std::erase_if(pods, [](const Value& pod) {
    const std::string phase = pod["status"]["phase"].Text();
    for (const Value& container : pod["spec"]["containers"].Items()) {
      for (const std::string& key : container["resources"]["limits"].Keys()) {
        if (key == kube::kMemory || key == kube::kCompute || key == kube::kCount) {
          return phase == "Succeeded" || phase == "Failed";
        }
      }
    }
    return true;
  });
  return pods;
}

std::string PodName(const Value& pod) {
  return pod["metadata"]["namespace"].Text() + "/" + NameOf(pod);
}

}  // namespace

Finding KubeScheduler(const Facts& facts) {
  const auto found = Scheduler(facts);
  if (!found.ok()) {
    return NotGot(found.error(), "there is no Deployment cgpu-scheduler");
  }
  return (*found)["status"]["readyReplicas"].Number() > 0
             ? Right("cgpu-scheduler is ready")
             : Wrong("no pod of the Deployment cgpu-scheduler is ready");
}

Finding KubeReplicas(const Facts& facts) {
  const auto found = Scheduler(facts);
  if (!found.ok()) {
    return Skipped("see k8s-scheduler");
  }
  const long wanted = (*found)["spec"]["replicas"].Number(1);
  const long ready = (*found)["status"]["readyReplicas"].Number();
  const std::string text =
      std::to_string(ready) + " of " + std::to_string(wanted) + " replicas are ready";
  return ready < wanted ? Wrong(text) : Right(text);
}

Finding KubeLeader(const Facts& facts) {
  const auto lease = GetObject(facts, {"leases", "cgpu-scheduler", "-n", ReleaseNamespace(facts)});
  if (!lease.ok()) {
    return NotGot(lease.error(), "there is no Lease cgpu-scheduler: no replica has become leader");
  }
  const std::string holder = (*lease)["spec"]["holderIdentity"].Text();
  const std::uint64_t renewed = TimeOf((*lease)["spec"]["renewTime"].Text());
  const auto valid =
      static_cast<std::uint64_t>((*lease)["spec"]["leaseDurationSeconds"].Number(15));
  return holder.empty() || renewed + valid + kClockSkew < facts.Now()
             ? Wrong("the last leader has not renewed the Lease cgpu-scheduler in time")
             : Right("the leader is " + holder);
}

Finding KubeExtender(const Facts& facts) {
  const auto found =
      GetObject(facts, {"configmaps", "cgpu-scheduler", "-n", ReleaseNamespace(facts)});
  if (!found.ok()) {
    return NotGot(found.error(), "there is no ConfigMap cgpu-scheduler");
  }
  const std::string text = (*found)["data"]["config.yaml"].Text();
  for (const char* const word : {"extenders:", "bindVerb: bind", kube::kMemory, kube::kCount}) {
    if (text.find(word) == std::string::npos) {
      return Wrong(std::string("the configuration of kube-scheduler lacks ") + word);
    }
  }
  return Right("kube-scheduler is told to ask cgpu-scheduler");
}

Finding KubeLabelled(const Facts& facts) {
  const auto nodes = SharingNodes(facts);
  if (!nodes.ok()) {
    return Skipped(nodes.error().what);
  }
  return nodes->empty()
             ? Wrong("no Kubernetes node has the label ack.node.gpu.schedule with a mode of cgpu")
             : Right(std::to_string(nodes->size()) + " Kubernetes nodes share their GPUs");
}

Finding KubeLabels(const Facts& facts) {
  const auto nodes = Items(facts, {"nodes"});
  if (!nodes.ok()) {
    return Skipped(nodes.error().what);
  }
  std::vector<std::string> unknown;
  for (const Value& node : *nodes) {
    if (const std::string mode = ModeOf(node); !mode.empty() && !IsMode(mode)) {
      unknown.push_back(NameOf(node) + " (" + mode + ")");
    }
  }
  return unknown.empty() ? Right("all labels ack.node.gpu.schedule are known")
                         : Wrong("cgpu knows no such mode: " + Joined(unknown));
}

Finding KubeDaemonSet(const Facts& facts) {
  const auto found = Daemons(facts);
  if (!found.ok()) {
    return NotGot(found.error(), "there is no DaemonSet cgpu-node");
  }
  const long wanted = (*found)["status"]["desiredNumberScheduled"].Number();
  const long ready = (*found)["status"]["numberReady"].Number();
  const std::string text =
      std::to_string(ready) + " of " + std::to_string(wanted) + " pods of cgpu-node are ready";
  return ready < wanted ? Wrong(text) : Right(text);
}

Finding KubeDaemonSetNodes(const Facts& facts) {
  const auto found = Daemons(facts);
  const auto nodes = SharingNodes(facts);
  if (!found.ok() || !nodes.ok()) {
    return Skipped("see k8s-daemonset");
  }
  const long wanted = (*found)["status"]["desiredNumberScheduled"].Number();
  const auto labelled = static_cast<long>(nodes->size());
  return wanted < labelled ? Wrong(std::to_string(labelled) +
                                   " Kubernetes nodes have the label, and cgpu-node is "
                                   "to run on " +
                                   std::to_string(wanted))
                           : Right("cgpu-node is to run on each Kubernetes node with the label");
}

Finding KubeResources(const Facts& facts) {
  return EachNode(facts, "each Kubernetes node with the label offers aliyun.com/gpu-mem",
                  "these offer no aliyun.com/gpu-mem",
                  [](const Value& node) { return HasNone(node, kube::kMemory); });
}

Finding KubeGpus(const Facts& facts) {
  return EachNode(facts, "each Kubernetes node with the label says which GPUs it has",
                  "these do not say which GPUs they have", [](const Value& node) {
                    return node["metadata"]["annotations"][kube::kGpus].Text().empty();
                  });
}

Finding KubeOtherPlugin(const Facts& facts) {
  return EachNode(facts, "no other device plugin gives out the GPUs",
                  "NVIDIA's device plugin gives out the GPUs as well, on",
                  [](const Value& node) { return !HasNone(node, "nvidia.com/gpu"); });
}

Finding KubePodsWaiting(const Facts& facts) {
  const auto pods = PodsWithParts(facts);
  if (!pods.ok()) {
    return Skipped(pods.error().what);
  }
  std::vector<std::string> waiting;
  for (const Value& pod : *pods) {
    const std::uint64_t made = TimeOf(pod["metadata"]["creationTimestamp"].Text());
    if (pod["metadata"]["annotations"][kube::kDecision].Text().empty() &&
        pod["status"]["phase"].Text() == "Pending" && made + kPatience < facts.Now()) {
      waiting.push_back(PodName(pod));
    }
  }
  return waiting.empty()
             ? Right("no pod has waited for a GPU for five minutes")
             : Wrong("these have waited for a GPU for five minutes: " + Joined(waiting));
}

Finding KubePodsRuntime(const Facts& facts) {
  const auto pods = PodsWithParts(facts);
  if (!pods.ok()) {
    return Skipped(pods.error().what);
  }
  std::vector<std::string> others;
  for (const Value& pod : *pods) {
    if (pod["spec"]["runtimeClassName"].Text().empty()) {
      others.push_back(PodName(pod));
    }
  }
  return others.empty()
             ? Right("all pods that ask for a part of a GPU have a runtime class")
             : Wrong("these ask for a part of a GPU and have no runtime class: " + Joined(others));
}

}  // namespace cgpu::doctor
