// cgpu-device-plugin: one per Kubernetes node. Says which GPUs the node has and how much of them
// pods may ask for, and gives cgpud the grants of the node's pods (host/pod_grants.h). It takes a
// decision only where cgpu-scheduler has signed it for this pod and this node.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "apps/cgpu-device-plugin/grants.h"
#include "base/file.h"
#include "cli/command_line.h"
#include "host/node.h"
#include "kube/admitted.h"
#include "kube/api.h"
#include "kube/decision.h"
#include "kube/follow.h"
#include "kube/gpus.h"
#include "kube/names.h"
#include "kube/stop.h"
#include "os/end_signals.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string kubeconfig;
  std::string kube_node;  // name of the Kubernetes node
  std::string node;       // a simulated node; empty: the host's driver
  std::string key_file;
};

void Log(const std::string& sentence) {
  (void)std::fprintf(stderr, "cgpu-device-plugin: %s\n", sentence.c_str());
}

// Writes on the Kubernetes node what it has.
Result<> Announce(const Api& api, const std::string& name, const Node& node) {
  std::vector<NodeGpu> gpus;
  std::uint64_t units = 0;
  for (const Card& card : node.cards) {
    gpus.push_back({card.uuid, card.memory_bytes >> 20, true});
    units += gpus.back().units();
  }
  const std::string count = std::to_string(gpus.size());
  Json labels{{kGpuCount, count}};
  if (!gpus.empty()) {
    std::string model = node.cards[0].model;
    std::replace(model.begin(), model.end(), ' ', '-');
    labels[kGpuName] = model;
    labels[kGpuMemory] = std::to_string(gpus[0].mib) + "MiB";
  }
  const std::string path = "/api/v1/nodes/" + name;
  CGPU_TRY(api.MergePatch(
      path, Json{{"metadata", {{"labels", labels}, {"annotations", {{kGpus, EncodeGpus(gpus)}}}}}}
                .dump()));
  const Json resources{{kMemory, std::to_string(units)},
                       {kCompute, std::to_string(100 * gpus.size())},
                       {kCount, count}};
  CGPU_TRY(api.MergePatch(
      path + "/status",
      Json{{"status", {{"capacity", resources}, {"allocatable", resources}}}}.dump()));
  Log("announced " + count + " GPUs with " + std::to_string(units) + " GiB");
  return {};
}

// Reads what this node let in before this program was started.
Result<Admitted> ReadAdmitted(const Api& api, const std::string& name, const Node& node,
                              const Key& key) {
  std::vector<NodeGpu> gpus;
  for (const Card& card : node.cards) {
    gpus.push_back({card.uuid, card.memory_bytes >> 20, true});
  }
  Admitted admitted(name, std::move(gpus));
  CGPU_ASSIGN_OR_RETURN(const auto text, api.Get("/api/v1/nodes/" + name));
  CGPU_ASSIGN_OR_RETURN(const auto info, ReadNode(text));
  for (const std::string& one : info.admitted) {
    if (const auto decision = PeekDecision(one); decision.ok()) {
      (void)admitted.Admit(decision->pod, one, key);
    }
  }
  return admitted;
}

Result<> Serve(const Options& options, const Stop& stop) {
  CGPU_ASSIGN_OR_RETURN(const auto access, FindAccess(options.kubeconfig));
  CGPU_ASSIGN_OR_RETURN(const auto pem, ReadFile(options.key_file));
  CGPU_ASSIGN_OR_RETURN(auto key, Key::ReadPublic(pem));
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(options.node));
  const Api api(access);
  CGPU_TRY(Announce(api, options.kube_node, node));
  CGPU_ASSIGN_OR_RETURN(auto admitted, ReadAdmitted(api, options.kube_node, node, key));
  Grants grants(api, options.kube_node, std::move(key), std::move(admitted), Log);
  const Follower pods{[&](std::string_view json) { grants.Set(json); },
                      [&](const std::string& uid) { grants.Remove(uid); },
                      [&] { grants.SetComplete(); }, Log, true};
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
  cgpu::kube::Stop stop;
  std::thread waits([&] {
    int signal = 0;
    (void)sigwait(&signals, &signal);
    stop.Set();
  });
  waits.detach();
  if (const auto ended = cgpu::kube::Serve(options, stop); !ended.ok()) {
    cgpu::kube::Log(cgpu::FormatError(ended.error()));
    return 1;
  }
  return 0;
}
