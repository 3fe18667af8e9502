// Tables of `kubectl inspect cgpu`: the GPUs of a cluster and how much of their memory pods have.
// Columns and words are those of Alibaba Cloud's tool ("Install and use ack-ai-installer and the
// GPU inspection tool"), which say nothing of GPUs that are given as wholes. Here such a GPU is
// allocated in full, and EXCLUSIVE has the indexes of GPUs that are given as wholes alone. Pure.
#ifndef CGPU_APPS_KUBECTL_INSPECT_CGPU_INSPECT_H_
#define CGPU_APPS_KUBECTL_INSPECT_CGPU_INSPECT_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace cgpu::kube {

enum class InspectForm { kNodes, kDetails, kJson };

// Takes the lists of nodes and of pods, as `kubectl get -o json` prints them. Returns the text to
// print. Decisions on pods are shown as they are there; nobody checks who has written them.
[[nodiscard]] Result<std::string> Inspect(std::string_view nodes, std::string_view pods,
                                          InspectForm form);

}  // namespace cgpu::kube

#endif  // CGPU_APPS_KUBECTL_INSPECT_CGPU_INSPECT_H_
