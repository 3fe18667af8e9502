// cgpu-scheduler: an extender of kube-scheduler that decides which GPUs of a node a pod gets
// (kube/extender.h).
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/file.h"
#include "cli/command_line.h"
#include "kube/api.h"
#include "kube/extender.h"
#include "kube/follow.h"

namespace cgpu::kube {
namespace {

constexpr int kPort = 12345;  // of the extender in cGPU's contract

struct Options {
  std::string kubeconfig;
  std::string address = "127.0.0.1";
  std::uint64_t port = kPort;
  std::string key_file;
};

void Log(const std::string& sentence) {
  (void)std::fprintf(stderr, "cgpu-scheduler: %s\n", sentence.c_str());
}

// Makes the Binding. A pod that is bound to this node already is as good: an earlier answer was
// lost.
Result<> BindAt(const Api& api, const std::string& name_space, const std::string& pod,
                const std::string& binding) {
  const std::string path = "/api/v1/namespaces/" + name_space + "/pods/" + pod;
  const auto answer = api.Post(path + "/binding", binding);
  if (answer.ok()) {
    return {};
  }
  if (answer.error().code == Code::kConflict) {
    const auto text = api.Get(path);
    const auto now = text.ok() ? ReadPod(*text) : text.error();
    const auto wanted = nlohmann::json::parse(binding, nullptr, false);
    if (now.ok() && now->uid == wanted["metadata"]["uid"] &&
        now->node == wanted["target"]["name"]) {
      return {};
    }
  }
  return answer.error();
}

// Runs until SIGTERM or SIGINT.
Result<> Serve(const Options& options) {
  CGPU_ASSIGN_OR_RETURN(const auto access, options.kubeconfig.empty()
                                               ? AccessInPod()
                                               : ReadKubeconfig(options.kubeconfig));
  CGPU_ASSIGN_OR_RETURN(const auto pem, ReadFile(options.key_file));
  CGPU_ASSIGN_OR_RETURN(auto key, Key::ReadPrivate(pem));
  const Api api(access);
  Extender extender(std::move(key), [&](const std::string& name_space, const std::string& pod,
                                        const std::string& binding) {
    return BindAt(api, name_space, pod, binding);
  });
  httplib::Server server;
  const auto answer = [](httplib::Response& response, const std::string& body) {
    response.set_content(body, "application/json");
  };
  server.Post("/filter", [&](const httplib::Request& request, httplib::Response& response) {
    answer(response, extender.Filter(request.body));
  });
  server.Post("/prioritize", [&](const httplib::Request& request, httplib::Response& response) {
    answer(response, extender.Prioritize(request.body));
  });
  server.Post("/bind", [&](const httplib::Request& request, httplib::Response& response) {
    answer(response, extender.BindPod(request.body, Clock::now()));
  });
  // The scheduler's connections stay open.
  server.set_keep_alive_max_count(1'000'000);
  server.set_tcp_nodelay(true);

  std::atomic<bool> stop{false};
  std::atomic<int> complete{0};
  const auto completed = [&, seen = false]() mutable {
    if (!seen && ++complete == 2) {
      extender.SetComplete();
      Log("knows the cluster");
    }
    seen = true;
  };
  const Follower nodes{[&](std::string_view json) { extender.SetNode(json); },
                       [&](const std::string& name) { extender.RemoveNode(name); }, completed, Log,
                       false};
  const Follower pods{[&](std::string_view json) { extender.SetPod(json); },
                      [&](const std::string& uid) { extender.RemovePod(uid); }, completed, Log,
                      true};
  std::thread follows_nodes([&] { Follow(api, "/api/v1/nodes", nodes, stop); });
  std::thread follows_pods([&] { Follow(api, "/api/v1/pods", pods, stop); });
  std::thread ends([&] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    constexpr timespec kSecond{1, 0};
    while (!stop) {
      if (sigtimedwait(&signals, nullptr, &kSecond) > 0) {
        stop = true;
      }
      extender.Expire(Clock::now());
    }
    server.stop();
  });
  Result<> ended;
  if (!server.listen(options.address.c_str(), static_cast<int>(options.port))) {
    ended = Error{Code::kUnavailable, 0,
                  "cannot listen at " + options.address + ":" + std::to_string(options.port),
                  "see `ss -ltnp` for what does"};
  }
  stop = true;
  ends.join();
  follows_nodes.join();
  follows_pods.join();
  return ended;
}

}  // namespace
}  // namespace cgpu::kube

int main(int argc, char** argv) {
  using cgpu::kube::Options;
  Options options;
  const cgpu::cli::Program app("Decides which GPUs of a Kubernetes node a pod gets",
                               "cgpu-scheduler");
  app.SetVersion(CGPU_VERSION);
  app.AddOption("--kubeconfig", options.kubeconfig,
                "How to reach the API server; without it, as a pod does");
  app.AddOption("--listen", options.address, "The address that kube-scheduler calls").ShowDefault();
  app.AddOption("--port", options.port, "The port there").ShowDefault();
  app.AddOption("--signing-key", options.key_file,
                "The private key, in PEM, that decisions are signed with")
      .Required();
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  // All threads: one of them waits for these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (const auto ended = cgpu::kube::Serve(options); !ended.ok()) {
    cgpu::kube::Log(cgpu::FormatError(ended.error()));
    return 1;
  }
  return 0;
}
