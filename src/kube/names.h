// Names of the contract with users of Kubernetes: resources, labels and annotations.
//
// aliyun.com/ and ack.node.gpu. are those of Alibaba Cloud's ACK ("Enable Multi-GPU Sharing with
// Shared GPU Scheduling"; "Labels for enabling GPU scheduling policies"), cgpu. is our own.
#ifndef CGPU_KUBE_NAMES_H_
#define CGPU_KUBE_NAMES_H_

namespace cgpu::kube {

// Resources of a container, in its limits. Memory is GiB, compute percent of one GPU, each in total
// over the pod's GPUs.
inline constexpr char kMemory[] = "aliyun.com/gpu-mem";
inline constexpr char kCompute[] = "aliyun.com/gpu-core.percentage";
// Steps of the percentage of each GPU; ACK refuses others.
inline constexpr unsigned kComputeStep = 5;
// A label of the pod, and a resource: as a limit, without the two above, it asks for whole GPUs.
inline constexpr char kCount[] = "aliyun.com/gpu-count";
// Labels of the node.
inline constexpr char kMode[] = "ack.node.gpu.schedule";
inline constexpr char kPlacement[] = "ack.node.gpu.placement";
inline constexpr char kGpuName[] = "aliyun.accelerator/nvidia_name";
inline constexpr char kGpuMemory[] = "aliyun.accelerator/nvidia_mem";
inline constexpr char kGpuCount[] = "aliyun.accelerator/nvidia_count";
// Annotation of the node that the administrator sets: GPUs that are given as wholes alone, by uuid
// or index, with commas between them.
inline constexpr char kExclusive[] = "cgpu.dev/exclusive";
// Annotations of the node: its GPUs (gpus.h), and the grants that it has let in, one in each line
// (admitted.h). Annotation of the pod: its grant (decision.h).
inline constexpr char kGpus[] = "cgpu.dev/gpus";
inline constexpr char kAdmitted[] = "cgpu.dev/admitted";
inline constexpr char kDecision[] = "cgpu.dev/decision";

}  // namespace cgpu::kube

#endif  // CGPU_KUBE_NAMES_H_
