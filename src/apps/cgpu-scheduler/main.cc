// cgpu-scheduler: an extender of kube-scheduler that decides which GPUs of a node a pod gets
// (kube/extender.h).
#include <httplib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/cgpu-scheduler/feed.h"
#include "apps/cgpu-scheduler/metrics.h"
#include "apps/cgpu-scheduler/options.h"
#include "apps/cgpu-scheduler/webhook.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "cli/command_line.h"
#include "json/json.h"
#include "kube/api.h"
#include "kube/extender.h"
#include "kube/lease.h"
#include "os/end_signals.h"
#include "page/access.h"
#include "page/server.h"
#include "version/version.h"

namespace cgpu::kube {
namespace {

void Say(const std::string& sentence) {
  Log(LogLevel::kNotice, sentence);
}

std::vector<std::string> SplitAtCommas(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    words.push_back(word);
  }
  return words;
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
    const auto wanted = ParseJson(binding);
    if (now.ok() && wanted["metadata"]["uid"] == now->uid &&
        wanted["target"]["name"] == now->node) {
      return {};
    }
  }
  return answer.error();
}

// Lets the scheduler's calls reach the extender.
void Route(httplib::Server& server, Extender& extender) {
  const auto route = [&](const char* path, const auto& answer) {
    server.Post(path, [answer](const httplib::Request& request, httplib::Response& response) {
      response.set_content(answer(request.body), "application/json");
    });
  };
  route("/filter", [&](const std::string& body) { return extender.Filter(body); });
  route("/prioritize", [&](const std::string& body) { return extender.Prioritize(body); });
  route("/bind", [&](const std::string& body) { return extender.BindPod(body, Clock::now()); });
  // The scheduler's connections stay open, each with a thread of its own here: where there are
  // fewer, a connection waits for another one to end.
  server.new_task_queue = [] { return new httplib::ThreadPool(kConnections); };
  server.set_keep_alive_max_count(1'000'000);
  server.set_tcp_nodelay(true);
}

// Tells kube-scheduler to ask again for pods that there is room for by now: it does when it sees
// that a pod has changed (PriorityQueue::Update() in Kubernetes' scheduling_queue.go).
class Waker {
 public:
  Waker(const Api& api, Extender& extender) : extender_(extender) {
    thread_ = std::thread([this, &api] {
      for (auto pods = extender_.WaitForRoom(); !pods.empty(); pods = extender_.WaitForRoom()) {
        for (const PodName& pod : pods) {
          Wake(api, pod);
        }
      }
    });
  }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  ~Waker() {
    extender_.End();
    thread_.join();
  }

 private:
  static void Wake(const Api& api, const PodName& pod) {
    const auto now = static_cast<std::uint64_t>(std::time(nullptr));
    const nlohmann::json condition{{"type", "cgpu.dev/RoomSeen"},
                                   {"status", "True"},
                                   {"lastTransitionTime", Rfc3339(now)},
                                   {"message", "a node has room for the pod's part of its GPUs"}};
    nlohmann::json status;
    status["status"]["conditions"].push_back(condition);
    const auto done = api.StrategicPatch(
        "/api/v1/namespaces/" + pod.name_space + "/pods/" + pod.name + "/status", status.dump());
    if (!done.ok() && done.error().code != Code::kNotFound) {
      Say("cannot say that there is room for " + pod.name_space + "/" + pod.name + ": " +
          done.error().what);
    }
  }

  Extender& extender_;
  std::thread thread_;
};

// Waits for one of these signals, which all threads block, or until `stop`. Lets assumptions expire
// meanwhile.
void WaitForEnd(const sigset_t& signals, Extender& extender, const std::atomic<bool>& stop) {
  constexpr timespec kSecond{1, 0};
  while (!stop && sigtimedwait(&signals, nullptr, &kSecond) < 0) {
    extender.Expire(Clock::now());
  }
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  (void)gethostname(name, sizeof(name) - 1);
  return name;
}

// Returns the path of the one lease in the API server.
Result<std::string> LeasePath(const std::string& lease) {
  const std::size_t slash = lease.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == lease.size()) {
    return Error{Code::kInvalid, 0, "\"" + lease + "\" names no lease",
                 "say --lease NAMESPACE/NAME, for example kube-system/cgpu-scheduler"};
  }
  return "/apis/coordination.k8s.io/v1/namespaces/" + lease.substr(0, slash) +
         "/leases?fieldSelector=metadata.name%3D" + lease.substr(slash + 1);
}

// Listens until it is asked to end.
Result<> Listen(const Options& options, Extender& extender, const sigset_t& ends_by) {
  httplib::Server server;
  Route(server, extender);
  std::atomic<bool> stop{false};
  std::thread ends([&] {
    WaitForEnd(ends_by, extender, stop);
    server.stop();
  });
  const bool served = server.listen(options.address.c_str(), static_cast<int>(options.port));
  stop = true;
  ends.join();
  return served ? Result<>()
                : Error{Code::kUnavailable, 0,
                        "cannot listen at " + options.address + ":" + std::to_string(options.port),
                        "see `ss -ltnp` for what does"};
}

Result<std::unique_ptr<page::Server>> OpenPage(const Options& options, Metrics& metrics) {
  page::Site site;
  CGPU_ASSIGN_OR_RETURN(site.address, page::ParseAddress(options.page_listen));
  CGPU_ASSIGN_OR_RETURN(site.token,
                        page::TokenFor(site.address, options.page_token_file, "--page-token"));
  site.certificate = {options.page_certificate_file, options.page_certificate_key_file};
  site.answers["/api/overview"] = [&metrics] {
    return page::Reply{200, page::kJson, metrics.Overview()};
  };
  return page::Server::Open(std::move(site));
}

Result<> Serve(const Options& options, const sigset_t& ends_by) {
  CGPU_ASSIGN_OR_RETURN(const auto access, FindAccess(options.kubeconfig));
  CGPU_ASSIGN_OR_RETURN(const auto pem, ReadFile(options.key_file));
  CGPU_ASSIGN_OR_RETURN(auto key, Key::ReadPrivate(pem));
  std::string lease_path;
  if (!options.lease.empty()) {
    CGPU_ASSIGN_OR_RETURN(lease_path, LeasePath(options.lease));
  }
  const Api api(access);
  LeaseView lease(options.identity.empty() ? HostName() + "_" : options.identity);
  Extender extender(
      std::move(key),
      [&](const std::string& name_space, const std::string& pod, const std::string& binding) {
        if (!lease_path.empty() && !lease.Held(Clock::now())) {
          return Result<>(Error{Code::kConflict, 0, "this scheduler does not lead", {}});
        }
        return BindAt(api, name_space, pod, binding);
      },
      options.rules.pods);
  std::optional<Metrics> metrics;
  if (!options.exporters.empty()) {
    metrics.emplace(options, api, Say);
  }
  const Feed feed(api, extender, metrics ? &metrics->pods() : nullptr, lease_path, lease, Say);
  const Waker waker(api, extender);
  std::unique_ptr<Webhook> webhook;
  if (!options.certificate_file.empty()) {
    CGPU_ASSIGN_OR_RETURN(webhook, Webhook::Open(options, extender, metrics ? &*metrics : nullptr));
  }
  std::unique_ptr<page::Server> page;
  if (metrics && !options.page_listen.empty()) {
    CGPU_ASSIGN_OR_RETURN(page, OpenPage(options, *metrics));
  }
  return Listen(options, extender, ends_by);
}

void AddMetricsOptions(const cli::Program& app, Options& options) {
  const auto exporters =
      app.AddOption("--exporters", options.exporters,
                    "The namespace of the pods with cgpu-exporter (label app=cgpu-node), to give "
                    "autoscalers custom metrics");
  app.AddOption("--exporter-token", options.exporter_token_file,
                "A file with the token that cgpu-exporter wants to be shown")
      .Value("FILE")
      .Needs(exporters);
  const auto page = app.AddOption("--page-listen", options.page_listen,
                                  "IP address and port of a page that shows all Kubernetes nodes");
  page.Needs(exporters);
  app.AddOption("--page-token", options.page_token_file,
                "A file with the token that the page asks for; it may be left out at 127.0.0.1")
      .Value("FILE")
      .Needs(page);
  const auto certificate = app.AddOption("--page-tls-cert", options.page_certificate_file,
                                         "The page's certificate, in PEM; without it there is no "
                                         "TLS")
                               .Value("FILE");
  const auto key = app.AddOption("--page-tls-key", options.page_certificate_key_file,
                                 "The key of --page-tls-cert")
                       .Value("FILE");
  certificate.Needs(page).Needs(key);
}

}  // namespace
}  // namespace cgpu::kube

int main(int argc, char** argv) {
  using cgpu::kube::Options;
  Options options;
  const cgpu::cli::Program app("Decides which GPUs of a Kubernetes node a pod gets",
                               "cgpu-scheduler");
  app.SetVersion(cgpu::VersionText("cgpu-scheduler"));
  app.AddOption("--kubeconfig", options.kubeconfig,
                "How to reach the API server; without it, as a pod does")
      .Value("FILE");
  app.AddOption("--listen", options.address, "The address that kube-scheduler calls").ShowDefault();
  app.AddOption("--port", options.port, "The port there").ShowDefault();
  app.AddOption("--signing-key", options.key_file,
                "The private key, in PEM, that decisions are signed with")
      .Value("FILE")
      .Required();
  app.AddOption("--webhook-port", options.webhook_port, "The port of the admission webhook")
      .ShowDefault();
  const auto certificate =
      app.AddOption("--tls-cert", options.certificate_file,
                    "The webhook's certificate, in PEM; without it there is no webhook")
          .Value("FILE");
  const auto key = app.AddOption("--tls-key", options.certificate_key_file, "The key of --tls-cert")
                       .Value("FILE");
  certificate.Needs(key);
  app.AddOption("--scheduler-name", options.rules.scheduler,
                "The scheduler that pods get which ask for a part of a GPU")
      .ShowDefault();
  app.AddOption("--lease", options.lease,
                "The lease of the kube-scheduler beside this program, NAMESPACE/NAME, where "
                "several elect one that leads");
  app.AddOption("--lease-identity", options.identity,
                "How that kube-scheduler's identity begins; without it, with this host's name");
  app.AddOptionCallback<std::string>(
      "--high-priority-classes",
      [&](const std::string& list) {
        options.rules.pods.high_priority_classes = cgpu::kube::SplitAtCommas(list);
      },
      "PriorityClasses, with commas between them, whose pods may have containers of high priority");
  app.AddFlag("--hami-names", options.rules.hami_names,
              "Take pods that ask by HAMi's names: nvidia.com/gpu, gpumem, gpumem-percentage, "
              "gpucores");
  cgpu::kube::AddMetricsOptions(app, options);
  app.AddFlag("--log-json", options.log_json, "Log lines as JSON, an object each");
  if (const auto status = app.ParseOrPrint(argc, argv)) {
    return *status;
  }
  cgpu::SetLogForm("cgpu-scheduler", options.log_json);
  const sigset_t signals = cgpu::os::BlockEndSignals();  // before there are other threads
  if (const auto ended = cgpu::kube::Serve(options, signals); !ended.ok()) {
    cgpu::LogError(ended.error());
    return 1;
  }
  return 0;
}
