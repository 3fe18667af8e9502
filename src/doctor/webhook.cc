// Checks of the webhook. Certificates are judged by openssl(1): cgpu links no cryptography.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "doctor/kubectl.h"
#include "doctor/kubernetes.h"
#include "doctor/reading.h"

namespace cgpu::doctor {
namespace {

// Verifies $2, a certificate, for the name $3 with the authorities of $1; both are PEM in base64.
constexpr const char* kVerify =
    "printf %s \"$1\" | base64 -d | { exec 3<&0; printf %s \"$2\" | base64 -d |"
    " openssl verify -verify_hostname \"$3\" -CAfile /dev/fd/3 /dev/stdin; }";
// Fails if the certificate $1 is not valid in 30 days any more; prints when it ends.
constexpr const char* kEnd =
    "printf %s \"$1\" | base64 -d | openssl x509 -noout -enddate -checkend 2592000";

// The webhook's authorities and certificate, in base64.
struct Certificates {
  std::string bundle;
  std::string certificate;
  std::string host;  // the name by which the API server calls
};

Result<Value> Webhook(const Facts& facts) {
  return GetObject(facts, {"mutatingwebhookconfigurations", "cgpu"});
}

// Returns the certificates. A Secret's certificate is public; the key beside it is not asked for.
Result<Certificates> CertificatesOf(const Facts& facts) {
  CGPU_ASSIGN_OR_RETURN(const auto webhook, Webhook(facts));
  Certificates found;
  for (const Value& one : webhook["webhooks"].Items()) {
    found.bundle = one["clientConfig"]["caBundle"].Text();
  }
  const std::string space = ReleaseNamespace(facts);
  found.host = "cgpu-webhook." + space + ".svc";
  CGPU_ASSIGN_OR_RETURN(found.certificate,
                        AskKubectl(facts, {"get", "secrets", "cgpu-webhook", "-n", space, "-o",
                                           "jsonpath={.data.tls\\.crt}"}));
  found.certificate = Trimmed(found.certificate);
  return found;
}

Finding Cannot(const Error& error) {
  return NotGot(error, "there is no webhook cgpu, or no Secret cgpu-webhook with its certificate");
}

bool LacksOpenssl(const Output& output) {
  return output.text.find("openssl: not found") != std::string::npos || output.status == 127;
}

}  // namespace

Finding KubeWebhook(const Facts& facts) {
  const auto found = Webhook(facts);
  return found.ok() ? Right("the webhook cgpu is here")
                    : NotGot(found.error(), "there is no MutatingWebhookConfiguration cgpu");
}

Finding KubeWebhookBundle(const Facts& facts) {
  const auto found = Webhook(facts);
  if (!found.ok()) {
    return Skipped("see k8s-webhook");
  }
  for (const Value& one : (*found)["webhooks"].Items()) {
    if (one["clientConfig"]["caBundle"].Text().empty()) {
      return Wrong("the webhook " + one["name"].Text() + " has no caBundle");
    }
  }
  return Right("the webhook has a caBundle");
}

Finding KubeWebhookCertificate(const Facts& facts) {
  const auto found = CertificatesOf(facts);
  if (!found.ok()) {
    return Cannot(found.error());
  }
  const auto output =
      facts.Run({"sh", "-c", kVerify, "sh", found->bundle, found->certificate, found->host});
  if (!output.ok() || LacksOpenssl(*output)) {
    return Skipped("openssl is not installed here");
  }
  return output->status == 0 ? Right("the caBundle verifies the webhook's certificate")
                             : Wrong(
                                   "the caBundle does not verify the certificate in the Secret "
                                   "cgpu-webhook: " +
                                   Trimmed(output->text));
}

Finding KubeWebhookEnd(const Facts& facts) {
  const auto found = CertificatesOf(facts);
  if (!found.ok()) {
    return Skipped("see k8s-webhook-certificate");
  }
  const auto output = facts.Run({"sh", "-c", kEnd, "sh", found->certificate});
  if (!output.ok() || LacksOpenssl(*output)) {
    return Skipped("openssl is not installed here");
  }
  const auto lines = LinesOf(output->text);
  const std::string end = lines.empty() ? "" : lines[0].substr(lines[0].find('=') + 1);
  return output->status == 0 ? Right("the webhook's certificate ends on " + end)
                             : Wrong("the webhook's certificate ends on " + end);
}

Finding KubeWebhookEndpoints(const Facts& facts) {
  const auto slices = GetObject(facts, {"endpointslices", "-n", ReleaseNamespace(facts), "-l",
                                        "kubernetes.io/service-name=cgpu-webhook"});
  if (!slices.ok()) {
    return Skipped(slices.error().what);
  }
  for (const Value& slice : (*slices)["items"].Items()) {
    if (!slice["endpoints"].Items().empty()) {
      return Right("the service cgpu-webhook leads to a pod");
    }
  }
  return Wrong("the service cgpu-webhook leads to no pod");
}

}  // namespace cgpu::doctor
