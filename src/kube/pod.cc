#include "kube/pod.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "grant/env.h"
#include "json/json.h"
#include "kube/amount.h"
#include "kube/decision.h"
#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

// Reads weight and priority. A variable that is taken from elsewhere (valueFrom) may change: it
// reads as what it is, which is no weight and no priority.
Result<> ReadEnvironment(const Json& container, ContainerAsk& ask) {
  std::map<std::string, std::string> variables;
  const Json& list = At(container, "env");
  for (const Json& one : list.is_array() ? list : Json::array()) {
    variables[TextAt(one, "name")] =
        At(one, "valueFrom").is_null() ? TextAt(one, "value") : "a valueFrom";
  }
  auto compute = EnvWeightAndPriority(variables);
  if (!compute.ok()) {
    Error error = compute.error();
    error.what = "container " + ask.name + ": " + error.what;
    return error;
  }
  ask.weight = static_cast<std::uint32_t>(compute->weight.value_or(1));
  ask.high_priority = compute->high_priority;
  return {};
}

Result<ContainerAsk> ReadContainer(const Json& container, bool init) {
  ContainerAsk ask;
  ask.name = TextAt(container, "name");
  CGPU_ASSIGN_OR_RETURN(ask.memory, AmountOf(container, kMemory));
  CGPU_ASSIGN_OR_RETURN(ask.compute, AmountOf(container, kCompute));
  CGPU_ASSIGN_OR_RETURN(ask.whole, AmountOf(container, kCount));
  ask.init = init;
  ask.sidecar = init && TextAt(container, "restartPolicy") == "Always";
  if (ask.memory != 0 || ask.compute != 0) {
    CGPU_TRY(ReadEnvironment(container, ask));
  }
  return ask;
}

void Note(const Error& mistake, PodAsk& pod) {
  if (!pod.mistake) {
    pod.mistake = mistake;
  }
}

void ReadContainers(const Json& list, bool init, PodAsk& pod) {
  for (const Json& one : list.is_array() ? list : Json::array()) {
    auto ask = ReadContainer(one, init);
    if (!ask.ok()) {
      Note(ask.error(), pod);
    } else if (ask->memory != 0 || ask->compute != 0 || ask->whole != 0) {
      pod.containers.push_back(*std::move(ask));
    }
  }
}

// Returns how many GPUs the pod's label asks for.
Result<std::uint32_t> ReadCount(const Json& metadata) {
  const Json& label = At(At(metadata, "labels"), kCount);
  if (label.is_null()) {
    return 1U;
  }
  CGPU_ASSIGN_OR_RETURN(const auto count,
                        ReadAmount(label.dump(), std::string("the label ") + kCount));
  if (count == 0) {
    return Error{Code::kInvalid, 0, std::string("the label ") + kCount + " is 0",
                 "leave it out for one GPU"};
  }
  return count;
}

std::string OwnerOf(const Json& metadata) {
  const Json& owners = At(metadata, "ownerReferences");
  for (const Json& owner : owners.is_array() ? owners : Json::array()) {
    if (At(owner, "controller") == true) {
      return TextAt(owner, "uid");
    }
  }
  return "";
}

// Adds what runs together with others, and takes the most of what runs alone, in the order in which
// the kubelet runs them (aggregateContainerResourcesByFn() in Kubernetes' component-helpers).
template <class Amount>
std::uint32_t Peak(const std::vector<ContainerAsk>& containers, Amount amount) {
  std::uint32_t running = 0;  // sidecars so far
  std::uint32_t most = 0;
  for (const ContainerAsk& one : containers) {
    if (one.init && !one.sidecar) {
      most = std::max(most, running + amount(one));
    } else {
      running += amount(one);
    }
  }
  return std::max(most, running);
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

Result<> CheckNotWhole(const ContainerAsk& one) {
  return one.whole == 0 ? Result<>()
                        : Error{Code::kInvalid, 0,
                                "container " + one.name + " asks for whole GPUs by " + kCount +
                                    ", and the pod asks for more of them",
                                std::string("have one container ask for whole GPUs, or for ") +
                                    kMemory + ": then the label " + kCount + " counts the GPUs"};
}

Result<> CheckMemory(const ContainerAsk& one, std::uint32_t gpus) {
  const std::string what = std::string(kMemory) + " of container " + one.name;
  if (one.memory == 0) {
    return Error{Code::kInvalid, 0,
                 std::string(kCompute) + " of container " + one.name + " comes without " + kMemory,
                 std::string("add ") + kMemory + ": the memory that the container may have"};
  }
  if (one.memory % gpus == 0) {
    return {};
  }
  const std::uint32_t more = one.memory / gpus + 1;
  return Error{
      Code::kInvalid, 0,
      what + " is " + std::to_string(one.memory) + ", which " + std::to_string(gpus) +
          " GPUs cannot share evenly",
      "ask for " + std::to_string(more * gpus) + ": " + std::to_string(more) + " GiB of each GPU"};
}

// ACK has no percentages for several GPUs; here each GPU keeps its own, so they are divided as the
// memory is.
Result<> CheckCompute(const ContainerAsk& one, std::uint32_t gpus) {
  const std::string what =
      std::string(kCompute) + " of container " + one.name + " is " + std::to_string(one.compute);
  if (one.compute > gpus * placement::kWholeCompute) {
    return Error{
        Code::kInvalid, 0,
        what + ", more than " + (gpus == 1 ? "1 GPU has" : std::to_string(gpus) + " GPUs have"),
        "ask for at most " + std::to_string(gpus * placement::kWholeCompute)};
  }
  if (one.compute % (kComputeStep * gpus) == 0) {
    return {};
  }
  const std::uint32_t more = (one.compute / (kComputeStep * gpus) + 1) * kComputeStep;
  return Error{Code::kInvalid, 0,
               what + ", which is no multiple of " + std::to_string(kComputeStep) +
                   (gpus == 1 ? "" : " on each of " + std::to_string(gpus) + " GPUs"),
               "ask for " + std::to_string(more * gpus) +
                   (gpus == 1 ? "" : ": " + std::to_string(more) + " % of each GPU")};
}

Result<> CheckPriority(const ContainerAsk& one, const PodAsk& pod, const PodRules& rules) {
  const auto& classes = rules.high_priority_classes;
  if (!one.high_priority ||
      std::find(classes.begin(), classes.end(), pod.priority_class) != classes.end()) {
    return {};
  }
  const std::string theirs = pod.priority_class.empty() ? "a pod without a priorityClassName"
                                                        : "the class " + pod.priority_class;
  return Error{
      Code::kPermission, 0,
      "container " + one.name + " asks for high priority, which " + theirs + " does not give",
      classes.empty() ? "leave it out: cgpu-scheduler --high-priority-classes names none"
                      : "set priorityClassName to one of these: " + Join(classes)};
}

// Checks what the containers ask for together.
Result<> CheckTogether(const PodAsk& pod) {
  const placement::Request request = RequestOf(pod);
  if (request.slices > placement::kMaxSlices) {
    return Error{Code::kInvalid, 0,
                 std::to_string(request.slices) +
                     " containers of the pod have a part of a GPU at "
                     "the same time",
                 "a GPU has at most " + std::to_string(placement::kMaxSlices)};
  }
  if (request.compute > placement::kWholeCompute) {
    return Error{
        Code::kInvalid, 0,
        "the pod's containers take " + std::to_string(request.compute) +
            " % of each GPU together, where one without a percentage counts 1 %",
        "ask for at most " + std::to_string(placement::kWholeCompute * pod.gpus) + " together"};
  }
  if (AsksCompute(pod) && AsksWeight(pod)) {
    return Error{Code::kInvalid, 0,
                 std::string("the pod asks for a weight and for ") + kCompute +
                     ", and a GPU shares its time by one of them",
                 "leave one of them out"};
  }
  return {};
}

}  // namespace

Result<PodAsk> ReadPod(std::string_view json) {
  const Json pod = ParseJson(json);
  const Json& metadata = At(pod, "metadata");
  const Json& spec = At(pod, "spec");
  if (!spec.is_object()) {
    return Error{Code::kInvalid, 0, "this is no pod", {}};
  }
  PodAsk ask;
  ask.name = TextAt(metadata, "name");
  ask.name_space = TextAt(metadata, "namespace");
  ask.uid = TextAt(metadata, "uid");
  ask.node = TextAt(spec, "nodeName");
  ask.owner = OwnerOf(metadata);
  ask.decision = TextAt(At(metadata, "annotations"), kDecision);
  const std::string phase = TextAt(At(pod, "status"), "phase");
  ask.ended = phase == "Succeeded" || phase == "Failed";
  ask.priority_class = TextAt(spec, "priorityClassName");
  if (auto count = ReadCount(metadata); count.ok()) {
    ask.gpus = *count;
  } else {
    Note(count.error(), ask);
  }
  ReadContainers(At(spec, "initContainers"), true, ask);
  ReadContainers(At(spec, "containers"), false, ask);
  if (ask.whole()) {
    ask.gpus = ask.containers[0].whole;
  }
  return ask;
}

bool AsksCompute(const PodAsk& pod) {
  return std::any_of(pod.containers.begin(), pod.containers.end(),
                     [](const ContainerAsk& one) { return one.compute != 0; });
}

bool AsksWeight(const PodAsk& pod) {
  return std::any_of(pod.containers.begin(), pod.containers.end(),
                     [](const ContainerAsk& one) { return one.weight > 1; });
}

placement::Request RequestOf(const std::vector<ContainerAsk>& containers, std::uint32_t gpus) {
  placement::Request request;
  request.gpus = gpus;
  request.slices = Peak(containers, [](const ContainerAsk&) { return 1U; });
  request.memory = Peak(containers, [&](const ContainerAsk& one) { return one.memory / gpus; });
  request.compute =
      Peak(containers, [&](const ContainerAsk& one) { return std::max(one.compute / gpus, 1U); });
  return request;
}

placement::Request RequestOf(const PodAsk& pod) {
  placement::Request request = RequestOf(pod.containers, pod.gpus);
  request.whole = pod.whole();
  return request;
}

Result<> Check(const PodAsk& pod, const PodRules& rules) {
  if (pod.mistake) {
    return *pod.mistake;
  }
  if (pod.whole() && pod.containers[0].memory == 0 && pod.containers[0].compute == 0) {
    return {};
  }
  CGPU_TRY(CheckParts(pod.containers));
  for (const ContainerAsk& one : pod.containers) {
    CGPU_TRY(CheckNotWhole(one));
    CGPU_TRY(CheckMemory(one, pod.gpus));
    CGPU_TRY(CheckCompute(one, pod.gpus));
    CGPU_TRY(CheckPriority(one, pod, rules));
  }
  return CheckTogether(pod);
}

}  // namespace cgpu::kube
