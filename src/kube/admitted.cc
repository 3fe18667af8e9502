#include "kube/admitted.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "placement/model.h"

namespace cgpu::kube {

std::vector<std::string> AdmittedTexts(std::string_view annotation) {
  std::vector<std::string> texts;
  std::istringstream lines{std::string(annotation)};
  for (std::string line; std::getline(lines, line);) {
    texts.push_back(line);
  }
  return texts;
}

Result<Decision> Admitted::Admit(const std::string& pod, std::string_view text, const Key& key) {
  CGPU_ASSIGN_OR_RETURN(auto decision, DecodeDecision(text, key));
  if (decision.pod != pod || decision.node != node_) {
    return Error{Code::kPermission, 0, "the decision on the pod is for another pod or node", {}};
  }
  if (const auto known = pods_.find(pod); known != pods_.end()) {
    if (known->second.text != text) {
      return Error{Code::kConflict, 0, "the pod has been given its GPUs by another decision", {}};
    }
    return decision;
  }
  for (const std::string& uuid : decision.gpus) {
    const auto gpu = std::find_if(gpus_.begin(), gpus_.end(),
                                  [&](const NodeGpu& one) { return one.uuid == uuid; });
    if (gpu == gpus_.end()) {
      return Error{Code::kNotFound, 0, "there is no GPU " + uuid + " on this node", {}};
    }
    std::uint64_t memory = decision.memory;
    std::uint64_t compute = decision.compute;
    for (const auto& [uid, other] : pods_) {
      const auto& theirs = other.decision.gpus;
      if (std::find(theirs.begin(), theirs.end(), uuid) != theirs.end()) {
        memory += other.decision.memory;
        compute += other.decision.compute;
      }
    }
    if (memory > gpu->units() || compute > placement::kWholeCompute) {
      return Error{Code::kExhausted, 0, "the GPU " + uuid + " has no room for the pod's part",
                   "it gets it once other pods have ended"};
    }
  }
  pods_[pod] = {std::string(text), decision};
  return decision;
}

bool Admitted::Remove(const std::string& pod) {
  return pods_.erase(pod) != 0;
}

std::vector<std::string> Admitted::Pods() const {
  std::vector<std::string> uids;
  uids.reserve(pods_.size());
  for (const auto& [uid, one] : pods_) {
    uids.push_back(uid);
  }
  return uids;
}

std::string Admitted::Text() const {
  std::string text;
  for (const auto& [uid, one] : pods_) {
    text += (text.empty() ? "" : "\n") + one.text;
  }
  return text;
}

}  // namespace cgpu::kube
