// The decisions that a node has let in: those whose pods may hold parts of its GPUs. The node
// publishes them before it gives a pod its part, and takes one back only once nothing of the pod
// runs. So what is given can be told from the nodes alone, whatever becomes of annotations on pods,
// and a node never gives more than it has, whoever has scheduled. Pure.
#ifndef CGPU_KUBE_ADMITTED_H_
#define CGPU_KUBE_ADMITTED_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/decision.h"
#include "kube/gpus.h"

namespace cgpu::kube {

// Returns the texts in such an annotation of a node.
[[nodiscard]] std::vector<std::string> AdmittedTexts(std::string_view annotation);

class Admitted {
 public:
  Admitted(std::string node, std::vector<NodeGpu> gpus)
      : node_(std::move(node)), gpus_(std::move(gpus)) {}

  // Lets in the decision that the annotation `text` is. kPermission: it is not signed, or for
  // another pod or node. kExhausted: a GPU has no room left for it. kNotFound: a GPU is not here.
  // kConflict: the pod has been let in with another decision. kInvalid: it is larger than decisions
  // are.
  [[nodiscard]] Result<Decision> Admit(const std::string& pod, std::string_view text,
                                       const Key& key);
  // Does the same with what was let in before, however large it is.
  [[nodiscard]] Result<Decision> AdmitAgain(const std::string& pod, std::string_view text,
                                            const Key& key);
  // Takes back what the pod has; returns whether it had anything.
  bool Remove(const std::string& pod);

  [[nodiscard]] bool Has(const std::string& pod) const { return pods_.count(pod) != 0; }
  [[nodiscard]] std::vector<std::string> Pods() const;
  // Returns the text that the pod was let in with, or "".
  [[nodiscard]] std::string TextOf(const std::string& pod) const;
  // Returns the node's annotation: the texts, one in each line.
  [[nodiscard]] std::string Text() const;

 private:
  struct One {
    std::string text;
    Decision decision;
  };
  // Checks that there is room for one more of that text.
  [[nodiscard]] Result<> CheckBytes(std::string_view text, const Decision& decision) const;

  const std::string node_;
  const std::vector<NodeGpu> gpus_;
  std::map<std::string, One> pods_;  // by uid
};

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_ADMITTED_H_
