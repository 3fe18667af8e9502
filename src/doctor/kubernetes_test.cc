#include "doctor/kubernetes.h"

#include <gtest/gtest.h>

#include "doctor/testing.h"

namespace cgpu::doctor {
namespace {

constexpr const char* kMissing = "Error from server (NotFound): not found\n";
const std::string kHere = " -n cgpu-system";

// Returns a fault by which an object of the cluster is other than in the healthy one.
Fault Is(const std::string& id, const std::string& found, const std::string& object,
         const std::string& json) {
  return Said(id, found, Get(object), json);
}

Fault Lacks(const std::string& id, const std::string& found, const std::string& object) {
  return Said(id, found, Get(object), kMissing, 1);
}

// Returns a fault by which a text of an object's JSON is another one.
Fault Replaced(const std::string& id, const std::string& found, const std::string& object,
               const std::string& from, const std::string& to) {
  return {id, found, [=](FakeHost& host) {
            std::string& text = host.outputs[Get(object)].text;
            text.replace(text.find(from), from.size(), to);
          }};
}

Fault MayNot(const std::string& id, const std::string& right, const std::string& account) {
  return Said(id, "may not " + right,
              "kubectl --request-timeout=8s auth can-i " + right +
                  " --as=system:serviceaccount:cgpu-system:" + account + kHere,
              "no\n", 1);
}

Fault OpensslSays(const std::string& id, const std::string& found, const std::string& text) {
  return {id, found, [=](FakeHost& host) {
            host.says = [=](const std::string& command) -> std::optional<Output> {
              return command.find("openssl") == std::string::npos ? std::nullopt
                                                                  : std::optional(Output{text, 1});
            };
          }};
}

TEST(Kubernetes, WithoutAnAnswerNothingIsCalledWrongButThat) {
  FakeHost host = HealthyHost();
  std::erase_if(host.outputs, [](const auto& one) { return one.first.starts_with("kubectl"); });
  EXPECT_EQ(KubeApi(host).kind, Finding::Kind::kWrong);
  for (const Check& check : Checks()) {
    if (check.category == Category::kKubernetes && check.id != "k8s-api" &&
        check.id != "k8s-kubectl") {
      EXPECT_EQ(check.look(host).kind, Finding::Kind::kSkipped) << check.id;
    }
  }
}

TEST(Kubernetes, RightsThatNobodyTellsAreNotCalledMissing) {
  FakeHost host = HealthyHost();
  for (auto& [command, output] : host.outputs) {
    if (command.find("can-i") != std::string::npos) {
      output = {"Error from server (Forbidden): cannot impersonate\n", 1};
    }
  }
  EXPECT_EQ(KubeSchedulerRights(host).kind, Finding::Kind::kSkipped);
}

TEST(Kubernetes, WithoutOpensslCertificatesAreNotJudged) {
  FakeHost host = HealthyHost();
  host.says = [](const std::string& command) -> std::optional<Output> {
    return command.find("openssl") == std::string::npos
               ? std::nullopt
               : std::optional(Output{"sh: 1: openssl: not found\n", 127});
  };
  EXPECT_EQ(KubeWebhookCertificate(host).kind, Finding::Kind::kSkipped);
  EXPECT_EQ(KubeWebhookEnd(host).kind, Finding::Kind::kSkipped);
}

}  // namespace

std::vector<Fault> KubernetesFaults() {
  const std::string webhook = "mutatingwebhookconfigurations cgpu";
  const std::string daemons = "daemonsets cgpu-node" + kHere;
  const std::string kubectl = "kubectl --request-timeout=8s ";
  return {
      {"k8s-kubectl", "kubectl",
       [](FakeHost& host) { host.outputs.erase("kubectl version --client"); }},
      Said("k8s-api", "refused", kubectl + "version -o json", "connection refused\n", 1),
      Said("k8s-version", "v1.29.4", kubectl + "version -o json",
           R"({"serverVersion": {"gitVersion": "v1.29.4"}})"),
      Replaced("k8s-pod-security", "\"baseline\"", "namespaces cgpu-system", "\"privileged\"",
               "\"baseline\""),
      Is("k8s-runtimeclass", "no RuntimeClass", "runtimeclasses", R"({"items": []})"),
      Said("k8s-signing-key", "no Secret",
           kubectl + "get secrets cgpu-signing-key -n cgpu-system -o name", kMissing, 1),
      Lacks("k8s-verify-key", "no ConfigMap", "configmaps cgpu-verify-key" + kHere),
      Is("k8s-verify-key", "no decisions.pub", "configmaps cgpu-verify-key" + kHere,
         R"({"data": {}})"),
      Said("k8s-policy", "binding",
           kubectl + "get validatingadmissionpolicybindings cgpu-node -o name", kMissing, 1),
      Said("k8s-policy", "no policy", kubectl + "get validatingadmissionpolicies cgpu-node -o name",
           kMissing, 1),
      MayNot("k8s-scheduler-rights", "create pods --subresource=binding", "cgpu-scheduler"),
      MayNot("k8s-node-rights", "patch nodes", "cgpu-node"),
      Replaced("k8s-images", "1.2.2, 1.2.3", daemons, "cgpu:1.2.3", "cgpu:1.2.2"),
      Lacks("k8s-webhook", "no MutatingWebhookConfiguration", webhook),
      Replaced("k8s-webhook-bundle", "pods.cgpu.dev has no caBundle", webhook, "Q0E=", ""),
      OpensslSays("k8s-webhook-certificate", "verification failed",
                  "error /dev/stdin: verification failed\n"),
      {"k8s-webhook-certificate", "does not verify",
       [](FakeHost& host) {
         host.says = [](const std::string& command) -> std::optional<Output> {
           return command.find("openssl") == std::string::npos ? std::nullopt
                                                               : std::optional(Output{"", 2});
         };
       }},
      Said("k8s-webhook-certificate", "no Secret",
           kubectl + "get secrets cgpu-webhook -n cgpu-system -o jsonpath={.data.tls\\.crt}",
           kMissing, 1),
      OpensslSays("k8s-webhook-end", "Dec 28", "notAfter=Dec 28 09:50:42 2026 GMT\nwill expire\n"),
      Is("k8s-webhook-endpoints", "no pod",
         "endpointslices -n cgpu-system -l kubernetes.io/service-name=cgpu-webhook",
         R"({"items": [{"endpoints": null}]})"),
  };
}

std::vector<Fault> WorkloadFaults() {
  const std::string scheduler = "deployments cgpu-scheduler" + kHere;
  const std::string daemons = "daemonsets cgpu-node" + kHere;
  return {
      Lacks("k8s-scheduler", "no Deployment", scheduler),
      Replaced("k8s-scheduler", "is ready", scheduler, R"("readyReplicas": 2)", R"("x": 2)"),
      Replaced("k8s-replicas", "1 of 2", scheduler, R"("readyReplicas": 2)",
               R"("readyReplicas": 1)"),
      Lacks("k8s-leader", "no Lease", "leases cgpu-scheduler" + kHere),
      Replaced("k8s-leader", "not renewed", "leases cgpu-scheduler" + kHere, "12:59:58",
               "12:58:58"),
      Lacks("k8s-extender", "no ConfigMap", "configmaps cgpu-scheduler" + kHere),
      Replaced("k8s-extender", "aliyun.com/gpu-count", "configmaps cgpu-scheduler" + kHere,
               "aliyun.com/gpu-count", "x"),
      Replaced("k8s-labelled", "no Kubernetes node", "nodes", R"("cgpu"})", R"("none"})"),
      Replaced("k8s-labels", "a (cgpus)", "nodes", R"("cgpu"})", R"("cgpus"})"),
      Lacks("k8s-daemonset", "no DaemonSet", daemons),
      Replaced("k8s-daemonset", "0 of 1", daemons, R"("numberReady": 1)", R"("numberReady": 0)"),
      Replaced("k8s-daemonset-nodes", "is to run on 0", daemons, R"("desiredNumberScheduled": 1)",
               R"("desiredNumberScheduled": 0)"),
      Replaced("k8s-resources", ": a", "nodes", R"("aliyun.com/gpu-mem": "30")",
               R"("aliyun.com/gpu-mem": "0")"),
      Replaced("k8s-gpus", ": a", "nodes", "cgpu.dev/gpus", "x"),
      Replaced("k8s-nvidia-plugin", ": a", "nodes", R"("cpu": "2")", R"("nvidia.com/gpu": "2")"),
      {"k8s-pods-waiting", "default/first",
       [](FakeHost& host) {
         std::string& text = host.outputs[Get("pods -A")].text;
         for (const auto& [from, to] :
              {std::pair{"cgpu.dev/decision", "x"}, {"Running", "Pending"}}) {
           text.replace(text.find(from), std::string(from).size(), to);
         }
       }},
      Replaced("k8s-pods-runtime", "default/first", "pods -A", R"("runtimeClassName": "cgpu", )",
               ""),
  };
}

}  // namespace cgpu::doctor
