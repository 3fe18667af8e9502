// Reads what the exporter of one Kubernetes node answers to /api/overview, as text of a stranger:
// an attacker may have the node. Pure.
#ifndef CGPU_FLEET_ANSWER_H_
#define CGPU_FLEET_ANSWER_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace cgpu::fleet {

// Namespace and name.
using PodName = std::pair<std::string, std::string>;

// Part of one GPU that a container has, and its use of it. Seconds count from some time on.
struct GpuFigures {
  double limit = 0;    // bytes
  double used = 0;     // bytes
  double share = 0;    // promised part of the compute time, 0..1; 0: none is promised
  double busy = 0;     // seconds
  double waiting = 0;  // seconds
};

struct ContainerFigures {
  PodName pod;
  std::map<std::string, GpuFigures> gpus;  // by UUID
};

struct NodeAnswer {
  double time = 0;                                     // seconds, by the node's own clock
  std::map<std::string, double> counted;               // seconds that are counted, by UUID of a GPU
  std::map<std::string, ContainerFigures> containers;  // of pods, by id
  std::string json;                                    // the node's object in the overview
};

// Reads an answer. The object gets `node` for its name, whatever the node calls itself. kInvalid:
// it is no overview of one node, with all members of exporter/overview.h and their types.
[[nodiscard]] Result<NodeAnswer> ReadAnswer(std::string_view text, const std::string& node);

// Returns the object of a node that there is no news from. `why`: a sentence.
[[nodiscard]] std::string SilentNode(const std::string& node, const std::string& why);

// Use of GPUs by a pod between two answers of its node.
struct PodFigures {
  double share_used = 0;   // part of what is promised, or of whole GPUs where nothing is
  double busy = 0;         // GPUs
  double waiting = 0;      // part of the time
  double memory_used = 0;  // part of the limit; now
};

// Returns the figures of the pods of `now`. Nothing where no time has passed.
[[nodiscard]] std::map<PodName, PodFigures> FiguresBetween(const NodeAnswer& before,
                                                           const NodeAnswer& now);

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_ANSWER_H_
