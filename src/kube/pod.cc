#include "kube/pod.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "kube/json.h"
#include "kube/names.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMost = 1'000'000;  // GiB, percent or GPUs: more is a slip of the pen

// Reads a quantity of Kubernetes that is a whole number: 8, "8" or "8k" ("Quantity" in
// apimachinery/pkg/api/resource/quantity.go has more forms; the API server turns those into these).
Result<std::uint32_t> ReadAmount(const Json& value, const std::string& what) {
  const auto wrong = [&] {
    return Error{Code::kInvalid, 0, what + " is " + value.dump() + ", which is no whole number",
                 "write a whole number, for example \"8\""};
  };
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return number <= kMost ? Result<std::uint32_t>(static_cast<std::uint32_t>(number)) : wrong();
  }
  if (!value.is_string()) {
    return wrong();
  }
  std::string text = value.get<std::string>();
  std::uint32_t times = 1;
  if (!text.empty() && text.back() == 'k') {
    times = 1000;
    text.pop_back();
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kMost / times) {
    return wrong();
  }
  return number * times;
}

// Returns the amount of a resource in the limits of a container, or its requests; 0: none.
Result<std::uint32_t> AmountOf(const Json& container, const char* resource) {
  const Json& resources = At(container, "resources");
  for (const char* kind : {"limits", "requests"}) {
    const Json& value = At(At(resources, kind), resource);
    if (!value.is_null()) {
      return ReadAmount(value,
                        std::string(resource) + " of container " + TextAt(container, "name"));
    }
  }
  return 0U;
}

Result<> ReadContainers(const Json& list, bool init, std::vector<ContainerAsk>& containers) {
  if (!list.is_array()) {
    return {};
  }
  for (const Json& one : list) {
    ContainerAsk ask;
    ask.name = TextAt(one, "name");
    CGPU_ASSIGN_OR_RETURN(ask.memory, AmountOf(one, kMemory));
    CGPU_ASSIGN_OR_RETURN(ask.compute, AmountOf(one, kCompute));
    ask.init = init;
    ask.sidecar = init && TextAt(one, "restartPolicy") == "Always";
    if (ask.memory != 0 || ask.compute != 0) {
      containers.push_back(std::move(ask));
    }
  }
  return {};
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
// the kubelet runs them.
std::uint32_t Peak(const PodAsk& pod, std::uint32_t ContainerAsk::* amount) {
  std::uint32_t running = 0;  // sidecars so far
  std::uint32_t most = 0;
  for (const ContainerAsk& one : pod.containers) {
    if (one.init && !one.sidecar) {
      most = std::max(most, running + one.*amount);
    } else {
      running += one.*amount;
    }
  }
  return std::max(most, running);
}

Result<> CheckAmount(std::uint32_t amount, std::uint32_t gpus, const std::string& what,
                     const char* unit) {
  if (amount % gpus == 0) {
    return {};
  }
  const std::uint32_t more = (amount / gpus + 1) * gpus;
  return Error{Code::kInvalid, 0,
               what + " is " + std::to_string(amount) + ", which " + std::to_string(gpus) +
                   " GPUs cannot share evenly",
               "ask for " + std::to_string(more) + ": " + std::to_string(more / gpus) + " " + unit +
                   " of each GPU"};
}

}  // namespace

Result<PodAsk> ReadPod(std::string_view json) {
  const Json pod = Json::parse(json, nullptr, false);
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
  if (const Json& count = At(At(metadata, "labels"), kCount); !count.is_null()) {
    CGPU_ASSIGN_OR_RETURN(ask.gpus, ReadAmount(count, std::string("the label ") + kCount));
    if (ask.gpus == 0) {
      return Error{Code::kInvalid, 0, std::string("the label ") + kCount + " is 0",
                   "leave it out for one GPU"};
    }
  }
  CGPU_TRY(ReadContainers(At(spec, "initContainers"), true, ask.containers));
  CGPU_TRY(ReadContainers(At(spec, "containers"), false, ask.containers));
  return ask;
}

placement::Request RequestOf(const PodAsk& pod) {
  placement::Request request;
  request.gpus = pod.gpus;
  request.memory = Peak(pod, &ContainerAsk::memory) / pod.gpus;
  request.compute = Peak(pod, &ContainerAsk::compute) / pod.gpus;
  return request;
}

Result<> Check(const PodAsk& pod) {
  for (const ContainerAsk& one : pod.containers) {
    const std::string of = " of container " + one.name;
    if (one.memory == 0) {
      return Error{Code::kInvalid, 0, std::string(kCompute) + of + " comes without " + kMemory,
                   std::string("add ") + kMemory + ": the memory that the container may have"};
    }
    CGPU_TRY(CheckAmount(one.memory, pod.gpus, kMemory + of, "GiB"));
    CGPU_TRY(CheckAmount(one.compute, pod.gpus, kCompute + of, "%"));
    if (one.compute / pod.gpus > placement::kWholeCompute) {
      return Error{Code::kInvalid, 0,
                   kCompute + of + " is " + std::to_string(one.compute) + ", more than " +
                       std::to_string(pod.gpus) + " GPUs have",
                   "ask for at most " + std::to_string(pod.gpus * placement::kWholeCompute)};
    }
  }
  return {};
}

}  // namespace cgpu::kube
