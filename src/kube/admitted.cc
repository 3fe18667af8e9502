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

Result<> Admitted::CheckBytes(std::string_view text, const Decision& decision) const {
  CGPU_TRY(CheckParts(decision.containers));
  if (text.size() > kMostDecision) {
    return Error{Code::kInvalid, 0,
                 "the decision on the pod has " + std::to_string(text.size()) + " bytes, of " +
                     std::to_string(kMostDecision) + " at most",
                 "let fewer containers of the pod ask for a part of a GPU"};
  }
  if (Text().size() + 1 + text.size() > kMostDecisionsAdmitted) {
    return Error{Code::kExhausted, 0, "the node's annotation has no room for the decision",
                 "it gets its part once other pods have ended"};
  }
  return {};
}

Result<Decision> Admitted::Admit(const std::string& pod, std::string_view text, const Key& key) {
  if (!Has(pod)) {
    CGPU_ASSIGN_OR_RETURN(const auto decision, DecodeDecision(text, key));
    CGPU_TRY(CheckBytes(text, decision));
  }
  return AdmitAgain(pod, text, key);
}

Result<Decision> Admitted::AdmitAgain(const std::string& pod, std::string_view text,
                                      const Key& key) {
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

std::string Admitted::TextOf(const std::string& pod) const {
  const auto found = pods_.find(pod);
  return found == pods_.end() ? "" : found->second.text;
}

std::string Admitted::Text() const {
  std::string text;
  for (const auto& [uid, one] : pods_) {
    text += (text.empty() ? "" : "\n") + one.text;
  }
  return text;
}

}  // namespace cgpu::kube
