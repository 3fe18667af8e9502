// cgpu-device-plugin: one per Kubernetes node. Says which GPUs the node has and how much of them
// pods may ask for (announcer.h), and gives cgpud the grants of the node's pods
// (host/pod_grants.h). It takes a decision only where cgpu-scheduler has signed it for this pod and
// this node.
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/cgpu-device-plugin/announcer.h"
#include "apps/cgpu-device-plugin/grants.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "host/event_ring.h"
#include "host/health.h"
#include "host/node.h"
#include "json/json.h"
#include "kube/admitted.h"
#include "kube/api.h"
#include "kube/decision.h"
#include "kube/follow.h"
#include "kube/gpus.h"
#include "kube/names.h"
#include "kube/stop.h"
#include "os/end_signals.h"
#include "version/version.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kHealthPeriod{10};
constexpr std::chrono::seconds kServerRetry{1};  // for an API server that does not answer yet

struct Options {
  std::string kubeconfig;
  std::string kube_node;  // name of the Kubernetes node
  std::string node;       // a simulated node; empty: the host's driver
  std::string key_file;
  bool log_json = false;
};

void Say(const std::string& sentence) {
  Log(LogLevel::kNotice, sentence);
}

std::vector<NodeGpu> GpusOf(const Node& node) {
  std::vector<NodeGpu> gpus;
  gpus.reserve(node.gpus.size());
  for (const Gpu& gpu : node.gpus) {
    gpus.push_back({gpu.uuid, gpu.memory_bytes >> 20, true});
  }
  return gpus;
}

// Returns what the Kubernetes node says that it has let in.
std::string PublishedIn(std::string_view node) {
  const Json json = ParseJson(node);
  return TextAt(At(At(json, "metadata"), "annotations"), kAdmitted);
}

// Keeps what the Kubernetes node is said to have, on a thread of its own.
class Announcing {
 public:
  Announcing(const Api& api, const std::string& name, const Node& node,
             const std::vector<NodeGpu>& gpus, Grants& grants)
      : announcer_(api, name, node.gpus.empty() ? "" : node.gpus[0].model, gpus, Say) {
    const Follower follower{[this, &grants](std::string_view json) {
                              announcer_.SetNode(json);
                              grants.SetPublished(PublishedIn(json));
                            },
                            [](const std::string&) {}, [] {}, Say, false};
    std::vector<HealthWatch::Ask> asks;
    asks.reserve(node.gpus.size());
    for (const Gpu& gpu : node.gpus) {
      asks.push_back(AskerOf(node, gpu));
    }
    health_.emplace(std::move(asks), kHealthPeriod,
                    [this, all = node.gpus](std::size_t gpu, bool healthy) {
                      announcer_.SetHealthy(gpu, healthy);
                      NoteEvent(healthy ? events::kGpuBack : events::kGpuLost,
                                {{"gpu", std::to_string(all[gpu].index)}, {"uuid", all[gpu].uuid}});
                    });
    follows_ = std::thread([this, &api, name, follower] {
      Follow(api, "/api/v1/nodes?fieldSelector=metadata.name%3D" + name, follower, stop_);
    });
  }
  Announcing(const Announcing&) = delete;
  Announcing& operator=(const Announcing&) = delete;
  ~Announcing() {
    stop_.Set();
    follows_.join();
  }

 private:
  Announcer announcer_;
  std::optional<HealthWatch> health_;
  Stop stop_;
  std::thread follows_;
};

// Reads what this node let in before this program was started. Waits for an API server that does
// not answer, until `stop`.
Result<Admitted> ReadAdmitted(const Api& api, const std::string& name,
                              const std::vector<NodeGpu>& gpus, const Key& key, const Stop& stop) {
  Admitted admitted(name, gpus);
  auto text = api.Get("/api/v1/nodes/" + name);
  while (!text.ok() && text.error().code == Code::kUnavailable && !stop.WaitFor(kServerRetry)) {
    text = api.Get("/api/v1/nodes/" + name);
  }
  CGPU_TRY(text);
  for (const std::string& one : AdmittedTexts(PublishedIn(*text))) {
    if (const auto decision = PeekDecision(one); decision.ok()) {
      (void)admitted.AdmitAgain(decision->pod, one, key);
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
  const std::vector<NodeGpu> gpus = GpusOf(node);
  CGPU_ASSIGN_OR_RETURN(auto admitted, ReadAdmitted(api, options.kube_node, gpus, key, stop));
  Grants grants(api, options.kube_node, std::move(key), std::move(admitted), Say);
  const Announcing announcing(api, options.kube_node, node, gpus, grants);
  const Follower pods{[&](std::string_view json) { grants.Set(json); },
                      [&](const std::string& uid) { grants.Remove(uid); },
                      [&] { grants.SetComplete(); }, Say, true};
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
  app.SetVersion(cgpu::VersionText("cgpu-device-plugin"));
  app.AddOption("--kubeconfig", options.kubeconfig,
                "How to reach the API server; without it, as a pod does")
      .Value("FILE");
  app.AddOption("--kube-node", options.kube_node, "The name of the Kubernetes node").Required();
  app.AddOption("--node", options.node, "A simulated node instead of the host's driver")
      .Value("NODE");
  app.AddOption("--verify-key", options.key_file,
                "The public key, in PEM, of cgpu-scheduler's signatures")
      .Value("FILE")
      .Required();
  app.AddFlag("--log-json", options.log_json, "Log lines as JSON, an object each");
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  cgpu::SetLogForm("cgpu-device-plugin", options.log_json);
  const sigset_t signals = cgpu::os::BlockEndSignals();
  cgpu::kube::Stop stop;
  std::thread waits([&] {
    int signal = 0;
    (void)sigwait(&signals, &signal);
    stop.Set();
  });
  waits.detach();
  if (const auto ended = cgpu::kube::Serve(options, stop); !ended.ok()) {
    cgpu::LogError(ended.error());
    return 1;
  }
  return 0;
}
