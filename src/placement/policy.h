// Scores the nodes that a request fits on, and chooses their GPUs.
//
// * Binpack fills GPUs and nodes one after the other, so that whole GPUs stay free. The default.
// * Spread takes the emptiest GPUs and nodes, and keeps replicas of one owner apart.
// * Fragmentation (Weng et al., "Beware of Fragmentation", USENIX ATC 2023) takes the place where
//   the cluster loses least of what typical pods could still use. Its scores are whole numbers, as
//   in the authors' simulator (hkust-adsl/kubernetes-scheduler-simulator, fgd_score.go), so many
//   places score the same. Binpack decides among those: more GPUs end in use than where the first
//   name decides or where scores are exact (bench-placement-quality).
#ifndef CGPU_PLACEMENT_POLICY_H_
#define CGPU_PLACEMENT_POLICY_H_

#include <cstdint>
#include <vector>

#include "placement/model.h"

namespace cgpu::placement {

inline constexpr int kMaxScore = 100;

struct Choice {
  int score = 0;  // 0 to kMaxScore; more is better
  int tie = 0;    // the same, among equal scores
  std::vector<std::uint32_t> gpus;
};

// The request fits on the node (fit.h).
[[nodiscard]] Choice ChooseBinpack(const Node& node, const Request& request);

// `replicas`: how many pods of the request's owner each GPU of the node holds; empty: none does.
[[nodiscard]] Choice ChooseSpread(const Node& node, const Request& request,
                                  const std::vector<std::uint32_t>& replicas);

// A request that the cluster sees often, and its share of all requests.
struct Typical {
  Request request;
  double weight = 0;  // 0 to 1
};

// Returns the most frequent of `requests` that make up `percent` of them together, weighted so that
// all weights together are 1.
[[nodiscard]] std::vector<Typical> TypicalOf(const std::vector<Request>& requests,
                                             unsigned percent = 95);

class Fragmentation {
 public:
  explicit Fragmentation(std::vector<Typical> typical) : typical_(std::move(typical)) {}
  [[nodiscard]] Choice Choose(const Node& node, const Request& request) const;
  // Returns how much GPU memory of the node no typical request can use, in thousandths of a GPU,
  // by the weight of the requests.
  [[nodiscard]] double Amount(const Node& node) const;

 private:
  std::vector<Typical> typical_;
};

}  // namespace cgpu::placement

#endif  // CGPU_PLACEMENT_POLICY_H_
