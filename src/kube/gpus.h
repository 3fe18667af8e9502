// The GPUs of a Kubernetes node and how it shares them: an annotation that cgpu's agent on the node
// writes, and labels that the administrator sets. Pure.
#ifndef CGPU_KUBE_GPUS_H_
#define CGPU_KUBE_GPUS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cgpu::kube {

struct NodeGpu {
  std::string uuid;  // GPU-…
  std::uint64_t mib = 0;
  bool healthy = true;
  bool exclusive = false;  // given as a whole alone

  // Returns the whole GiB that aliyun.com/gpu-mem counts.
  [[nodiscard]] std::uint32_t units() const { return static_cast<std::uint32_t>(mib / 1024); }
  bool operator==(const NodeGpu&) const = default;
};

[[nodiscard]] std::string EncodeGpus(const std::vector<NodeGpu>& gpus);
// kInvalid: not written by EncodeGpus().
[[nodiscard]] Result<std::vector<NodeGpu>> DecodeGpus(std::string_view text);

// Marks the GPUs that the annotation cgpu.dev/exclusive names, and no others. Returns the words of
// it that name none.
std::vector<std::string> MarkExclusive(std::string_view text, std::vector<NodeGpu>& gpus);

// How a node shares its GPUs: the label ack.node.gpu.schedule.
enum class Mode {
  kNone,     // it does not, or another device plugin does
  kCgpu,     // memory is isolated, compute time is shared
  kCoreMem,  // memory and compute time are isolated
  kShare,    // nothing is isolated: pods see whole GPUs and keep to their part themselves
};
[[nodiscard]] Mode ModeOf(std::string_view label);

// How pods are placed on a node's GPUs: the label ack.node.gpu.placement (placement/policy.h).
enum class Placement { kBinpack, kSpread, kFragmentation };
[[nodiscard]] Placement PlacementOf(std::string_view label);

struct NodeInfo {
  std::string name;
  std::string model;
  Mode mode = Mode::kNone;
  Placement placement = Placement::kBinpack;
  std::vector<NodeGpu> gpus;
  std::vector<std::string> admitted;  // annotations of pods, as the node has let them in

  bool operator==(const NodeInfo&) const = default;
};

// Reads a node's JSON, as the API server gives it. A node without the annotation has no GPUs.
[[nodiscard]] Result<NodeInfo> ReadNode(std::string_view json);

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_GPUS_H_
