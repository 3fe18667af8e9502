// cgpu-device-plugin: one per Kubernetes node. Says which GPUs the node has and how much of them
// pods may ask for (announcer.h), and gives cgpud the grants of the node's pods
// (host/pod_grants.h). It takes a decision only where cgpu-scheduler has signed it for this pod and
// this node.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "apps/cgpu-device-plugin/announcer.h"
#include "base/file.h"
#include "cli/command_line.h"
#include "host/health.h"
#include "host/node.h"
#include "host/pod_grants.h"
#include "kube/api.h"
#include "kube/decision.h"
#include "kube/follow.h"
#include "kube/gpus.h"
#include "kube/pod.h"
#include "os/end_signals.h"

namespace cgpu::kube {
namespace {

constexpr std::chrono::seconds kHealthPeriod{10};

struct Options {
  std::string kubeconfig;
  std::string kube_node;  // name of the Kubernetes node
  std::string node;       // a simulated node; empty: the host's driver
  std::string key_file;
};

void Log(const std::string& sentence) {
  (void)std::fprintf(stderr, "cgpu-device-plugin: %s\n", sentence.c_str());
}

// Keeps what the Kubernetes node is said to have, on a thread of its own.
class Announcing {
 public:
  Announcing(const Api& api, const std::string& name, const Node& node)
      : announcer_(api, name, node.cards.empty() ? "" : node.cards[0].model, GpusOf(node), Log) {
    const Follower follower{[this](std::string_view json) { announcer_.SetNode(json); },
                            [](const std::string&) {}, [] {}, Log, false};
    std::vector<HealthWatch::Ask> asks;
    for (const Card& card : node.cards) {
      asks.push_back(AskerOf(node, card));
    }
    health_.emplace(std::move(asks), kHealthPeriod,
                    [this](std::size_t gpu, bool healthy) { announcer_.SetHealthy(gpu, healthy); });
    follows_ = std::thread([this, &api, name, follower] {
      Follow(api, "/api/v1/nodes?fieldSelector=metadata.name%3D" + name, follower, stop_);
    });
  }
  Announcing(const Announcing&) = delete;
  Announcing& operator=(const Announcing&) = delete;
  ~Announcing() {
    stop_ = true;
    follows_.join();
  }

 private:
  static std::vector<NodeGpu> GpusOf(const Node& node) {
    std::vector<NodeGpu> gpus;
    for (const Card& card : node.cards) {
      gpus.push_back({card.uuid, card.memory_bytes >> 20, true});
    }
    return gpus;
  }

  Announcer announcer_;
  std::optional<HealthWatch> health_;
  std::atomic<bool> stop_{false};
  std::thread follows_;
};

// Keeps the grants of the node's pods.
class Grants {
 public:
  Grants(std::string node, Key key) : node_(std::move(node)), key_(std::move(key)) {
    for (std::string& uid : ListPodGrants()) {
      written_.insert(std::move(uid));
    }
  }

  void Set(std::string_view json) {
    const auto pod = ReadPod(json);
    if (!pod.ok()) {
      return;
    }
    present_.insert(pod->uid);
    if (pod->decision.empty() || written_.count(pod->uid) != 0) {
      return;  // a decision does not change
    }
    const auto decision = DecodeDecision(pod->decision, key_);
    const bool mine = decision.ok() && decision->pod == pod->uid && decision->node == node_;
    if (!mine) {
      Log("takes no decision for the pod " + pod->name_space + "/" + pod->name + ": " +
          (decision.ok() ? "it is for another pod or node" : decision.error().what));
      return;
    }
    PodGrant grant;
    grant.gpus = decision->gpus;
    grant.isolated = decision->isolated;
    for (const ContainerAsk& one : decision->containers) {
      grant.containers[one.name] = {one.memory,
                                    one.compute / static_cast<std::uint32_t>(grant.gpus.size())};
    }
    if (const auto done = WritePodGrant(pod->uid, grant); !done.ok()) {
      Log(FormatError(done.error()));
      return;
    }
    written_.insert(pod->uid);
  }

  void Remove(const std::string& uid) {
    present_.erase(uid);
    written_.erase(uid);
    RemovePodGrant(uid);
  }

  // Removes the grants of pods that went while this program was away.
  void RemoveAbsent() {
    const std::set<std::string> written = written_;
    for (const std::string& uid : written) {
      if (present_.count(uid) == 0) {
        Remove(uid);
      }
    }
  }

 private:
  const std::string node_;
  const Key key_;
  std::set<std::string> present_;
  std::set<std::string> written_;
};

Result<> Serve(const Options& options, const std::atomic<bool>& stop) {
  CGPU_ASSIGN_OR_RETURN(const auto access, FindAccess(options.kubeconfig));
  CGPU_ASSIGN_OR_RETURN(const auto pem, ReadFile(options.key_file));
  CGPU_ASSIGN_OR_RETURN(auto key, Key::ReadPublic(pem));
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(options.node));
  const Api api(access);
  const Announcing announcing(api, options.kube_node, node);
  Grants grants(options.kube_node, std::move(key));
  const Follower pods{[&](std::string_view json) { grants.Set(json); },
                      [&](const std::string& uid) { grants.Remove(uid); },
                      [&] { grants.RemoveAbsent(); }, Log, true};
  Follow(api, "/api/v1/pods?fieldSelector=spec.nodeName%3D" + options.kube_node, pods, stop);
  return {};
}

}  // namespace
}  // namespace cgpu::kube

int main(int argc, char** argv) {
  using cgpu::kube::Options;
  Options options;
  const cgpu::cli::Program app("Gives the pods of a Kubernetes node their parts of its GPUs",
                               "cgpu-device-plugin");
  app.SetVersion(CGPU_VERSION);
  app.AddOption("--kubeconfig", options.kubeconfig,
                "How to reach the API server; without it, as a pod does");
  app.AddOption("--kube-node", options.kube_node, "The name of the Kubernetes node").Required();
  app.AddOption("--node", options.node, "A simulated node instead of the host's driver");
  app.AddOption("--verify-key", options.key_file,
                "The public key, in PEM, of cgpu-scheduler's signatures")
      .Required();
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  const sigset_t signals = cgpu::os::BlockEndSignals();
  std::atomic<bool> stop{false};
  std::thread waits([&] {
    int signal = 0;
    (void)sigwait(&signals, &signal);
    stop = true;
  });
  waits.detach();
  if (const auto ended = cgpu::kube::Serve(options, stop); !ended.ok()) {
    cgpu::kube::Log(cgpu::FormatError(ended.error()));
    return 1;
  }
  return 0;
}
