#include "cgpud/creation.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "grant/env.h"
#include "grant/flags.h"
#include "host/container_events.h"
#include "host/event_ring.h"
#include "host/force.h"
#include "host/node.h"
#include "host/pod_grants.h"
#include "host/registry.h"
#include "host/reserve.h"
#include "host/shim_process.h"
#include "protocol/text.h"
#include "rm/abi.h"
#include "sandbox/tree_words.h"

namespace cgpu {
namespace {

constexpr std::size_t kShortId = 12;
// The scheduler's decision comes to the node by another way than the pod, and may come after it.
constexpr std::chrono::seconds kDecisionTimeout{30};

// Returns the annotation by which one of the two container engines says a thing; "": there is none.
// kPermission: there are both, so one of them is the tenant's word.
Result<std::string> AnnotationOf(const CreationRequest& request, std::string_view containerd,
                                 std::string_view crio) {
  std::string found;
  for (const auto& [name, value] : request.annotations) {
    if (name != containerd && name != crio) {
      continue;
    }
    if (!found.empty() && value != found) {
      return Error{Code::kPermission, 0,
                   "the container has two annotations that say which it is, " +
                       std::string(containerd) + " and " + std::string(crio),
                   "leave the pod's own annotation of that name out"};
    }
    found = value;
  }
  return found;
}

// Returns the name of a pod's container; empty: it is of no pod.
Result<std::string> ContainerOf(const CreationRequest& request) {
  return AnnotationOf(request, "io.kubernetes.cri.container-name", "io.kubernetes.container.name");
}

// Returns what `cgpu ps` calls it: a pod's container by its name, another by the id that its
// container engine shows.
std::string StemFor(const CreationRequest& request) {
  if (const auto name = ContainerOf(request); name.ok() && !name->empty()) {
    return *name;
  }
  const bool hex = IsId(request.engine_id.substr(0, kShortId));
  return hex ? request.engine_id.substr(0, kShortId) : request.engine_id;
}

// Returns the GPUs whose files the container was given, for example through CDI: giving the file
// names the GPU.
Result<GpuRequest> GpusGiven(const std::vector<unsigned>& minors, const Node& node) {
  GpuRequest gpus;
  gpus.kind = GpuRequest::Kind::kDevices;
  for (const unsigned minor : minors) {
    const auto gpu = std::ranges::find(node.gpus, minor, &Gpu::minor);
    if (gpu == node.gpus.end()) {
      return Error{Code::kNotFound, 0,
                   "the container was given /dev/nvidia" + std::to_string(minor) +
                       ", which is no GPU of this host",
                   "see `cgpu smi -L`; CDI specifications are made by `nvidia-ctk cdi generate`"};
    }
    gpus.devices.push_back(std::to_string(gpu->index));
  }
  return gpus;
}

Result<SliceRequest> RequestOfCommand(const CommandRequest& command,
                                      const CreationRequest& request) {
  GrantFlags flags = command.flags;
  flags.environment = request.environment;
  CGPU_ASSIGN_OR_RETURN(auto wanted, RequestOf(flags));
  wanted.name = command.name;
  wanted.stem = command.stem;
  return wanted;
}

// Returns the uid of the pod whose container it is; empty: of none. Container engines say so.
// kUnavailable: one says that it is of a pod, and not of which.
Result<std::string> PodOf(const CreationRequest& request) {
  CGPU_ASSIGN_OR_RETURN(
      auto uid, AnnotationOf(request, "io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"));
  CGPU_ASSIGN_OR_RETURN(const auto name, ContainerOf(request));
  if (uid.empty() && !name.empty()) {
    return Error{Code::kUnavailable, 0,
                 "the container engine does not say which pod the container " + name + " is of",
                 "use one that writes the annotation io.kubernetes.cri.sandbox-uid, as containerd "
                 "does, or io.kubernetes.pod.uid, as CRI-O does"};
  }
  return uid;
}

// Returns what the scheduler has decided for the container. kNotFound: nothing of a GPU.
Result<SliceRequest> RequestOfPod(const CreationRequest& request, const std::string& pod) {
  CGPU_ASSIGN_OR_RETURN(const auto grant, WaitForPodGrant(pod, kDecisionTimeout));
  CGPU_ASSIGN_OR_RETURN(const auto name, ContainerOf(request));
  const auto part = grant.containers.find(name);
  if (part == grant.containers.end()) {
    return Error{Code::kNotFound, 0, "the container " + name + " has no part of its pod's GPUs",
                 "give it a limit of aliyun.com/gpu-mem"};
  }
  SliceRequest wanted;
  GpuRequest gpus;
  gpus.kind = GpuRequest::Kind::kDevices;
  gpus.devices = grant.gpus;
  wanted.resources.gpus.push_back(std::move(gpus));
  wanted.resources.memory.push_back({MemoryRequest::Kind::kUnits, part->second.memory, 0});
  if (part->second.compute != 0) {
    wanted.compute.percent = part->second.compute;
  }
  if (part->second.weight > 1) {
    wanted.compute.weight = part->second.weight;
  }
  wanted.compute.high_priority = part->second.high_priority;
  wanted.stem = StemFor(request);
  wanted.engine_id = request.engine_id;
  wanted.origin = "kubernetes";
  wanted.isolated = grant.isolated;
  wanted.pod = pod;
  wanted.container = name;
  return wanted;
}

Result<SliceRequest> RequestOfEngine(const CreationRequest& request, const Node& node) {
  CGPU_ASSIGN_OR_RETURN(const auto environment, EnvGrant(VariablesOf(request.environment)));
  if (environment.mode != EnvRequest::Mode::kManaged) {
    return Error{Code::kInvalid, 0, "the container asks for no slice of a GPU", {}};
  }
  SliceRequest wanted;
  wanted.resources = environment.resources;
  if (wanted.resources.gpus.empty() && !request.minors.empty()) {
    CGPU_ASSIGN_OR_RETURN(auto given, GpusGiven(request.minors, node));
    wanted.resources.gpus.push_back(std::move(given));
  }
  wanted.stem = StemFor(request);
  wanted.engine_id = request.engine_id;
  for (const auto& [name, value] : request.annotations) {
    wanted.names_file = name == kNamesFile ? value : wanted.names_file;
  }
  wanted.origin = "environment";
  wanted.compute = environment.compute;
  return wanted;
}

// Describes the files to the runtime. The runtime makes real device files, the hook a simulated
// node's; the reply names both.
void DescribeFiles(const Node& node, const Grant& grant, CreationReply& reply) {
  const GpuTree tree = TreeFor(node, grant, {});
  reply.tree = TreeWords(tree);
  if (node.name.empty()) {
    reply.cdi = {"/etc/cdi", "/var/run/cdi"};
  } else {
    reply.cdi = {std::string(kSimulatedNodes) + "/" + node.name + "/cdi"};
  }
  for (const NodeDevice& device : node.devices) {
    if (device.file.simulated) {
      continue;
    }
    if (std::ranges::find(reply.majors, device.file.dev_major) == reply.majors.end()) {
      reply.majors.push_back(device.file.dev_major);
    }
    const bool given = std::ranges::any_of(
        tree.devices, [&](const DeviceFile& file) { return file.name == device.name; });
    if (given) {
      reply.devices.push_back(
          {"/dev/" + device.name, device.file.dev_major, device.file.dev_minor});
    }
  }
}

// Returns what tells a pod's container that is held to nothing which part of its GPUs it may use
// (ACK, "Use shared GPU scheduling without isolation": GiB of each GPU, and what each has).
std::vector<std::string> VariablesForSharing(const SliceRequest& wanted, const Grant& grant) {
  std::string indexes;
  for (const GpuGrant& granted : grant.gpus) {
    indexes += (indexes.empty() ? "" : ",") + std::to_string(granted.gpu.index);
  }
  const std::uint64_t units = wanted.resources.memory.front().value / grant.gpus.size();
  return {"ALIYUN_COM_GPU_MEM_CONTAINER=" + std::to_string(units),
          "ALIYUN_COM_GPU_MEM_DEV=" + std::to_string(UnitsOf(grant.gpus.front().gpu)),
          "ALIYUN_COM_GPU_MEM_IDX=" + indexes};
}

// Ends what there is of the same container of the pod. A pod has one container of a name at a time,
// and the kubelet has it made anew only once the one before is dead to it. containerd 1.6 may leave
// such a one, made but not started, where the kubelet ended while it waited for the start.
Result<> EndPredecessor(const Registry& registry, const SliceRequest& wanted) {
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  for (const Reservation& one : live) {
    if (one.pod != wanted.pod || one.container != wanted.container) {
      continue;
    }
    const auto ended = EndByForce(registry, one.id);
    if (!ended.ok() && ended.error().code != Code::kNotFound) {
      return ended.error();
    }
    if (ended.ok()) {
      EventFields fields = NamesOf(one);
      fields["why"] = "its pod has the container made again";
      NoteEvent(events::kForced, std::move(fields));
    }
  }
  return {};
}

// Reserves what is wanted on the node, and starts the shim of its container.
Result<Slice> CreateFor(SliceRequest wanted, const Node& node, const Surroundings& surroundings,
                        const CreationRequest& request, Peer creator) {
  const CommandRequest* const command = request.command ? &*request.command : nullptr;
  if (wanted.compute.high_priority && creator.uid != 0) {
    return Error{Code::kPermission, 0, "high priority is for root to give",
                 "leave it out, or have root say: cgpu set NAME --priority high"};
  }
  wanted.agent = true;
  wanted.user = creator.uid;
  wanted.isolated = wanted.isolated && (surroundings.isolated || command != nullptr);
  const bool killable = command != nullptr ? command->killable : surroundings.killable;
  wanted.max_inst = surroundings.max_inst;
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  if (!wanted.pod.empty()) {
    CGPU_TRY(EndPredecessor(registry, wanted));  // root alone may say so: see CreateSlice()
  }
  CGPU_ASSIGN_OR_RETURN(auto reserved, Reserve(registry, node, wanted));
  const std::string id = reserved.reservation.id;
  const Giveback unless_started(registry, id);
  ShimConfig config = ConfigFor(reserved.reservation, node, reserved.grant);
  config.pid_namespace = request.pid_namespace;
  config.killable = killable;
  CGPU_ASSIGN_OR_RETURN(config.word, DrawWord());
  config.firmware = surroundings.firmware;
  config.prove = command == nullptr;  // a user's `cgpu run` makes its filter itself
  ShimDescriptors files;
  files.admin = std::move(reserved.admin);
  files.agent = std::move(reserved.agent);
  files.creator = std::move(creator.process);
  CGPU_ASSIGN_OR_RETURN(const auto shim,
                        ShimProcess::Start(config, std::move(files), reserved.reservation.shim_uid,
                                           SystemdRuns() ? "cgpu-shim-" + id : ""));
  Slice slice;
  slice.reservation = reserved.reservation;
  if (!shim.why_no_scope().empty()) {
    slice.remarks.push_back("the shim of " + id +
                            " has no scope of its own: " + shim.why_no_scope());
  }
  if (std::string notice = rm::NotCompared(node.driver); !notice.empty()) {
    slice.remarks.push_back(std::move(notice));
  }
  CreationReply& reply = slice.reply;
  reply.id = id;
  reply.listener = registry.AgentPath(id);
  reply.killable = killable;
  reply.word = config.word;
  DescribeFiles(node, reserved.grant, reply);
  if (!wanted.pod.empty() && !wanted.isolated) {
    reply.environment = VariablesForSharing(wanted, reserved.grant);
  }
  return slice;
}

}  // namespace

Result<Slice> CreateSlice(const Surroundings& surroundings, const CreationRequest& request,
                          Peer creator) {
  const CommandRequest* const command = request.command ? &*request.command : nullptr;
  const bool other_node = command != nullptr && !command->node.empty();
  // A user may write any pod's name into the annotations of a container of his.
  const bool by_kubelet = surroundings.kubernetes && command == nullptr && creator.uid == 0;
  CGPU_ASSIGN_OR_RETURN(const auto pod, by_kubelet ? PodOf(request) : Result<std::string>(""));
  if (!pod.empty()) {
    CGPU_ASSIGN_OR_RETURN(auto wanted, RequestOfPod(request, pod));
    const auto node = FindNode(surroundings.node);
    auto slice =
        node.ok() ? CreateFor(std::move(wanted), *node, surroundings, request, std::move(creator))
                  : Result<Slice>(node.error());
    if (!slice.ok() && slice.error().code == Code::kNotFound) {
      Error error = slice.error();
      error.code = Code::kUnavailable;  // kNotFound says that the container is to have nothing
      return error;
    }
    return slice;
  }
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(other_node ? command->node : surroundings.node));
  CGPU_ASSIGN_OR_RETURN(auto wanted, command != nullptr ? RequestOfCommand(*command, request)
                                                        : RequestOfEngine(request, node));
  return CreateFor(std::move(wanted), node, surroundings, request, std::move(creator));
}

}  // namespace cgpu
