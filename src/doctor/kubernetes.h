// Checks of cgpu in a Kubernetes cluster, by what kubectl says with the user's own access. No check
// reads a private key. Rows of check_table.cc say what each is about.
#ifndef CGPU_DOCTOR_KUBERNETES_H_
#define CGPU_DOCTOR_KUBERNETES_H_

#include "doctor/check.h"

namespace cgpu::doctor {

[[nodiscard]] Finding Kubectl(const Facts& facts);
[[nodiscard]] Finding KubeApi(const Facts& facts);
[[nodiscard]] Finding KubeVersion(const Facts& facts);
[[nodiscard]] Finding KubePodSecurity(const Facts& facts);
[[nodiscard]] Finding KubeRuntimeClass(const Facts& facts);
[[nodiscard]] Finding KubeSigningKey(const Facts& facts);
[[nodiscard]] Finding KubeVerifyKey(const Facts& facts);
[[nodiscard]] Finding KubePolicy(const Facts& facts);
[[nodiscard]] Finding KubeSchedulerRights(const Facts& facts);
[[nodiscard]] Finding KubeNodeRights(const Facts& facts);
[[nodiscard]] Finding KubeImages(const Facts& facts);

// In webhook.cc.
[[nodiscard]] Finding KubeWebhook(const Facts& facts);
[[nodiscard]] Finding KubeWebhookBundle(const Facts& facts);
[[nodiscard]] Finding KubeWebhookCertificate(const Facts& facts);
[[nodiscard]] Finding KubeWebhookEnd(const Facts& facts);
[[nodiscard]] Finding KubeWebhookEndpoints(const Facts& facts);

// In workload.cc.
[[nodiscard]] Finding KubeScheduler(const Facts& facts);
[[nodiscard]] Finding KubeReplicas(const Facts& facts);
[[nodiscard]] Finding KubeLeader(const Facts& facts);
[[nodiscard]] Finding KubeExtender(const Facts& facts);
[[nodiscard]] Finding KubeLabelled(const Facts& facts);
[[nodiscard]] Finding KubeLabels(const Facts& facts);
[[nodiscard]] Finding KubeDaemonSet(const Facts& facts);
[[nodiscard]] Finding KubeDaemonSetNodes(const Facts& facts);
[[nodiscard]] Finding KubeResources(const Facts& facts);
[[nodiscard]] Finding KubeGpus(const Facts& facts);
[[nodiscard]] Finding KubeOtherPlugin(const Facts& facts);
[[nodiscard]] Finding KubePodsWaiting(const Facts& facts);
[[nodiscard]] Finding KubePodsRuntime(const Facts& facts);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_KUBERNETES_H_
