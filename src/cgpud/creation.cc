#include "cgpud/creation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grant/env.h"
#include "grant/flags.h"
#include "host/node.h"
#include "host/registry.h"
#include "host/reserve.h"
#include "host/shim_process.h"
#include "protocol/text.h"
#include "rm/abi.h"
#include "sandbox/tree_words.h"

namespace cgpu {
namespace {

constexpr std::size_t kShortId = 12;

// Returns what `cgpu ps` calls it: a pod's container by its name, another by the id that its
// container engine shows.
std::string StemFor(const CreationRequest& request) {
  for (const auto& [name, value] : request.annotations) {
    if (name == "io.kubernetes.cri.container-name" || name == "io.kubernetes.container.name") {
      return value;
    }
  }
  const bool hex = IsId(request.engine_id.substr(0, kShortId));
  return hex ? request.engine_id.substr(0, kShortId) : request.engine_id;
}

// Returns the GPUs whose files the container was given, for example through CDI: giving the file
// names the GPU.
Result<GpuRequest> CardsGiven(const std::vector<unsigned>& minors, const Node& node) {
  GpuRequest cards;
  cards.kind = GpuRequest::Kind::kDevices;
  for (const unsigned minor : minors) {
    const auto card = std::find_if(node.cards.begin(), node.cards.end(),
                                   [&](const Card& one) { return one.minor == minor; });
    if (card == node.cards.end()) {
      return Error{Code::kNotFound, 0,
                   "the container was given /dev/nvidia" + std::to_string(minor) +
                       ", which is no card of this node",
                   "see `cgpu smi -L`; CDI specifications are made by `nvidia-ctk cdi generate`"};
    }
    cards.devices.push_back(std::to_string(card->index));
  }
  return cards;
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

Result<SliceRequest> RequestOfEngine(const CreationRequest& request, const Node& node) {
  CGPU_ASSIGN_OR_RETURN(const auto environment, EnvGrant(VariablesOf(request.environment)));
  if (environment.mode != EnvRequest::Mode::kManaged) {
    return Error{Code::kInvalid, 0, "the container asks for no slice of a GPU", {}};
  }
  SliceRequest wanted;
  wanted.resources = environment.resources;
  if (wanted.resources.gpus.empty() && !request.minors.empty()) {
    CGPU_ASSIGN_OR_RETURN(auto cards, CardsGiven(request.minors, node));
    wanted.resources.gpus.push_back(std::move(cards));
  }
  wanted.stem = StemFor(request);
  wanted.engine_id = request.engine_id;
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
    if (std::find(reply.majors.begin(), reply.majors.end(), device.file.dev_major) ==
        reply.majors.end()) {
      reply.majors.push_back(device.file.dev_major);
    }
    const bool given =
        std::any_of(tree.devices.begin(), tree.devices.end(),
                    [&](const DeviceFile& file) { return file.name == device.name; });
    if (given) {
      reply.devices.push_back(
          {"/dev/" + device.name, device.file.dev_major, device.file.dev_minor});
    }
  }
}

}  // namespace

Result<Slice> CreateSlice(const Surroundings& surroundings, const CreationRequest& request,
                          Peer creator) {
  const CommandRequest* const command = request.command ? &*request.command : nullptr;
  const bool other_node = command != nullptr && !command->node.empty();
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(other_node ? command->node : surroundings.node));
  CGPU_ASSIGN_OR_RETURN(auto wanted, command != nullptr ? RequestOfCommand(*command, request)
                                                        : RequestOfEngine(request, node));
  if (wanted.compute.high_priority && creator.uid != 0) {
    return Error{Code::kPermission, 0, "high priority is for root to give",
                 "leave it out, or have root say: cgpu set NAME --priority high"};
  }
  wanted.agent = true;
  wanted.user = creator.uid;
  wanted.isolated = surroundings.isolated || command != nullptr;
  const bool killable = command != nullptr ? command->killable : surroundings.killable;
  wanted.max_inst = surroundings.max_inst;
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(auto reserved, Reserve(registry, node, wanted));
  const std::string id = reserved.reservation.id;
  const Giveback unless_started(registry, id);
  ShimConfig config = ConfigFor(reserved.reservation, node, reserved.grant);
  config.pid_namespace = request.pid_namespace;
  config.killable = killable;
  config.prove = command == nullptr;  // a user's `cgpu run` makes its filter itself
  ShimDescriptors files;
  files.admin = std::move(reserved.admin);
  files.agent = std::move(reserved.agent);
  files.creator = std::move(creator.process);
  CGPU_ASSIGN_OR_RETURN(const auto shim,
                        ShimProcess::Start(config, std::move(files), reserved.reservation.shim_uid,
                                           SystemdRuns() ? "cgpu-shim-" + id : ""));
  Slice slice;
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
  DescribeFiles(node, reserved.grant, reply);
  return slice;
}

}  // namespace cgpu
