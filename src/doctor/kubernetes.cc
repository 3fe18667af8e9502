#include "doctor/kubernetes.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "doctor/kubectl.h"
#include "doctor/reading.h"

namespace cgpu::doctor {
namespace {

constexpr Numbers kOldestKubernetes = {1, 30, 0};  // docs/tutorial/kubernetes.md

// A question of `kubectl auth can-i`.
using Permission = std::vector<std::string>;

// Judges whether a service account of the release may do all of these.
Finding MayAll(const Facts& facts, const std::string& account,
               const std::vector<Permission>& rights) {
  const std::string space = ReleaseNamespace(facts);
  const std::string as = "--as=system:serviceaccount:" + space + ":" + account;
  std::vector<std::string> lacking;
  for (Permission right : rights) {
    std::string name;
    for (const std::string& word : right) {
      name += (name.empty() ? "" : " ") + word;
    }
    right.insert(right.begin(), {"auth", "can-i"});
    right.insert(right.end(), {as, "-n", space});
    const auto answer = AskKubectl(facts, right);
    const std::string text = Trimmed(answer.ok() ? *answer : answer.error().what);
    if (text.ends_with("no") || text.find("no -") != std::string::npos) {
      lacking.push_back(name);
    } else if (!answer.ok()) {
      return Skipped(text);
    }
  }
  return lacking.empty() ? Right(account + " has its rights")
                         : Wrong("the service account " + account + " may not " + Joined(lacking));
}

// Returns the tags of cgpu's image in an object with a template of pods.
void AddTags(const Value& object, std::set<std::string>& tags) {
  for (const Value& container : object["spec"]["template"]["spec"]["containers"].Items()) {
    const std::string image = container["image"].Text();
    if (container["name"].Text().starts_with("cgpu")) {
      tags.insert(image.substr(image.rfind(':') + 1));
    }
  }
}

Finding Present(const Facts& facts, const std::vector<std::string>& words,
                const std::string& what) {
  std::vector<std::string> all{"get"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"-o", "name"});
  const auto answer = AskKubectl(facts, all);
  return answer.ok() ? Right(what + " is here") : NotGot(answer.error(), "there is no " + what);
}

}  // namespace

Finding Kubectl(const Facts& facts) {
  const auto output = facts.Run({"kubectl", "version", "--client"});
  if (!output.ok()) {
    return Wrong(output.error().what);
  }
  return output->status == 0 ? Right("kubectl is installed") : Wrong(Trimmed(output->text));
}

Finding KubeApi(const Facts& facts) {
  const auto answer = AskKubectl(facts, {"version", "-o", "json"});
  if (!answer.ok()) {
    return Wrong(answer.error().what);
  }
  const std::string version = Value::Parse(JsonPart(*answer))["serverVersion"]["gitVersion"].Text();
  return version.empty() ? Wrong("the API server does not tell its version")
                         : Right("the API server answers: " + version);
}

Finding KubeVersion(const Facts& facts) {
  const auto answer = AskKubectl(facts, {"version", "-o", "json"});
  const std::string text =
      answer.ok() ? Value::Parse(JsonPart(*answer))["serverVersion"]["gitVersion"].Text() : "";
  const auto version = FirstVersion(text);
  if (!version) {
    return Skipped("see k8s-api");
  }
  return *version < kOldestKubernetes ? Wrong("this is Kubernetes " + text)
                                      : Right("Kubernetes " + text);
}

Finding KubePodSecurity(const Facts& facts) {
  const std::string space = ReleaseNamespace(facts);
  const auto found = GetObject(facts, {"namespaces", space});
  if (!found.ok()) {
    return NotGot(found.error(), "there is no namespace " + space);
  }
  const std::string level =
      (*found)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].Text();
  return level.empty() || level == "privileged"
             ? Right("Pod Security Admission lets cgpu's pods in")
             : Wrong("the namespace " + space + " enforces the standard \"" + level + "\"");
}

Finding KubeRuntimeClass(const Facts& facts) {
  const auto found = GetObject(facts, {"runtimeclasses"});
  if (!found.ok()) {
    return NotGot(found.error(), "the cluster has no RuntimeClasses");
  }
  for (const Value& one : (*found)["items"].Items()) {
    if (one["handler"].Text() == "cgpu") {
      return Right("the RuntimeClass " + one["metadata"]["name"].Text() + " leads to cgpu");
    }
  }
  return Wrong("no RuntimeClass has the handler cgpu");
}

Finding KubeSigningKey(const Facts& facts) {
  return Present(facts, {"secrets", "cgpu-signing-key", "-n", ReleaseNamespace(facts)},
                 "Secret cgpu-signing-key");
}

Finding KubeVerifyKey(const Facts& facts) {
  const auto found =
      GetObject(facts, {"configmaps", "cgpu-verify-key", "-n", ReleaseNamespace(facts)});
  if (!found.ok()) {
    return NotGot(found.error(), "there is no ConfigMap cgpu-verify-key");
  }
  return (*found)["data"]["decisions.pub"].Text().empty()
             ? Wrong("the ConfigMap cgpu-verify-key has no decisions.pub")
             : Right("the ConfigMap cgpu-verify-key has a key");
}

Finding KubePolicy(const Facts& facts) {
  const Finding policy =
      Present(facts, {"validatingadmissionpolicies", "cgpu-node"}, "policy cgpu-node");
  return policy.kind == Finding::Kind::kRight
             ? Present(facts, {"validatingadmissionpolicybindings", "cgpu-node"},
                       "binding of the policy cgpu-node")
             : policy;
}

Finding KubeSchedulerRights(const Facts& facts) {
  return MayAll(facts, "cgpu-scheduler",
                {{"list", "nodes"},
                 {"watch", "pods"},
                 {"create", "pods", "--subresource=binding"},
                 {"patch", "pods", "--subresource=status"},
                 {"get", "leases/cgpu-scheduler"}});
}

Finding KubeNodeRights(const Facts& facts) {
  return MayAll(facts, "cgpu-node", {{"patch", "nodes"}, {"watch", "nodes"}, {"watch", "pods"}});
}

Finding KubeImages(const Facts& facts) {
  const std::string space = ReleaseNamespace(facts);
  const auto deployment = GetObject(facts, {"deployments", "cgpu-scheduler", "-n", space});
  const auto daemons = GetObject(facts, {"daemonsets", "cgpu-node", "-n", space});
  if (!deployment.ok() || !daemons.ok()) {
    return Skipped("see k8s-scheduler and k8s-daemonset");
  }
  std::set<std::string> tags;
  AddTags(*deployment, tags);
  AddTags(*daemons, tags);
  const std::string text = Joined({tags.begin(), tags.end()});
  return tags.size() > 1 ? Wrong("cgpu's pods have images of several versions: " + text)
                         : Right("cgpu's pods have images of one version: " + text);
}

}  // namespace cgpu::doctor
