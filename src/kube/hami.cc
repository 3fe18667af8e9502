#include "kube/hami.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json.h"
#include "kube/amount.h"
#include "kube/names.h"
#include "placement/model.h"

namespace cgpu::kube {
namespace {

using Json = nlohmann::json;

constexpr char kHamiGpus[] = "nvidia.com/gpu";
constexpr char kHamiMemory[] = "nvidia.com/gpumem";
constexpr char kHamiPercentage[] = "nvidia.com/gpumem-percentage";
constexpr char kHamiCores[] = "nvidia.com/gpucores";
constexpr char kHamiPriority[] = "nvidia.com/priority";
constexpr std::uint32_t kMibPerGib = 1024;

// Annotations by which HAMi chooses GPUs.
constexpr const char* kChoices[] = {"nvidia.com/use-gputype", "nvidia.com/nouse-gputype",
                                    "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"};

Error Wrong(const char* name, const Json& container, const std::string& is, std::string hint) {
  return Error{Code::kInvalid, 0,
               std::string(name) + " of container " + TextAt(container, "name") + " is " + is,
               std::move(hint)};
}

// Returns the GiB of each GPU.
Result<std::uint32_t> MemoryOf(const Json& container, std::uint32_t largest) {
  CGPU_ASSIGN_OR_RETURN(const auto mib, AmountOf(container, kHamiMemory));
  if (mib != 0) {
    const std::uint32_t nearest = std::max((mib + kMibPerGib / 2) / kMibPerGib, 1U);
    if (mib % kMibPerGib == 0) {
      return nearest;
    }
    return Wrong(kHamiMemory, container,
                 std::to_string(mib) + " MiB, which is no whole number of GiB",
                 "ask for " + std::to_string(nearest * kMibPerGib));
  }
  CGPU_ASSIGN_OR_RETURN(auto percent, AmountOf(container, kHamiPercentage));
  percent = percent == 0 ? 100 : percent;
  const std::string is = std::to_string(percent) + " %";
  if (percent > 100) {
    return Wrong(kHamiPercentage, container, is, "ask for at most 100");
  }
  if (largest == 0) {
    return Wrong(kHamiPercentage, container, is + " of a GPU, and no GPU is known yet",
                 std::string("ask for ") + kHamiMemory);
  }
  if (largest * percent % 100 == 0) {
    return largest * percent / 100;
  }
  const std::uint32_t nearest = std::max((largest * percent + 50) / 100, 1U);
  return Wrong(
      kHamiPercentage, container,
      is + ", which is no whole number of the " + std::to_string(largest) +
          " GiB of the largest GPU",
      "ask for " + std::string(kHamiMemory) + " of " + std::to_string(nearest * kMibPerGib));
}

// Returns the percent of each GPU's compute time; 0: none.
Result<std::uint32_t> ComputeOf(const Json& container) {
  CGPU_ASSIGN_OR_RETURN(const auto cores, AmountOf(container, kHamiCores));
  if (cores > placement::kWholeCompute) {
    return Wrong(kHamiCores, container, std::to_string(cores) + ", more than a GPU has",
                 "ask for at most " + std::to_string(placement::kWholeCompute));
  }
  if (cores % kComputeStep != 0) {
    return Wrong(
        kHamiCores, container,
        std::to_string(cores) + ", which is no multiple of " + std::to_string(kComputeStep),
        "ask for " + std::to_string((cores / kComputeStep + 1) * kComputeStep));
  }
  return cores;
}

// Replaces the names of one container. Returns its number of GPUs; 0: it asks for none.
Result<std::uint32_t> Rewrite(Json& container, std::uint32_t largest) {
  const auto has = [&](const char* name) {
    const auto amount = AmountOf(container, name);
    return !amount.ok() || *amount != 0;
  };
  if (!has(kHamiGpus) && !has(kHamiMemory) && !has(kHamiPercentage) && !has(kHamiCores)) {
    return 0U;
  }
  if (has(kMemory) || has(kCompute)) {
    return Error{Code::kInvalid, 0,
                 "container " + TextAt(container, "name") +
                     " asks for parts of GPUs by names of aliyun.com and of nvidia.com",
                 "use one of them"};
  }
  if (has(kHamiPriority)) {
    return Wrong(kHamiPriority, container, "a priority that only HAMi knows",
                 "leave it out; a container of high priority sets ALIYUN_COM_GPU_HIGH_PRIO");
  }
  CGPU_ASSIGN_OR_RETURN(auto gpus, AmountOf(container, kHamiGpus));
  gpus = std::max(gpus, 1U);
  CGPU_ASSIGN_OR_RETURN(const auto memory, MemoryOf(container, largest));
  CGPU_ASSIGN_OR_RETURN(const auto compute, ComputeOf(container));
  Json& resources = container["resources"];
  for (const char* kind : {"limits", "requests"}) {
    for (const char* name : {kHamiGpus, kHamiMemory, kHamiPercentage, kHamiCores}) {
      if (At(resources, kind).is_object()) {
        resources[kind].erase(name);
      }
    }
  }
  resources["limits"][kMemory] = std::to_string(gpus * memory);
  if (compute != 0) {
    resources["limits"][kCompute] = std::to_string(gpus * compute);
  }
  return gpus;
}

// Writes the number of GPUs on the pod.
Result<> SetCount(Json& pod, std::uint32_t gpus) {
  const std::string before = TextAt(At(At(pod, "metadata"), "labels"), kCount);
  if (before.empty() && gpus == 1) {
    return {};
  }
  if (!before.empty() && before != std::to_string(gpus)) {
    return Error{Code::kInvalid, 0,
                 std::string("the label ") + kCount + " is " + before + ", and " + kHamiGpus +
                     " is " + std::to_string(gpus),
                 "leave the label out"};
  }
  pod["metadata"]["labels"][kCount] = std::to_string(gpus);
  return {};
}

Result<> CheckChoices(const Json& pod) {
  for (const char* const name : kChoices) {
    if (!At(At(At(pod, "metadata"), "annotations"), name).is_null()) {
      return Error{
          Code::kInvalid, 0,
          std::string("the annotation ") + name + " has no equal in cgpu-scheduler",
          std::string("leave it out; nodes have the label ") + kGpuName + " for a nodeSelector"};
    }
  }
  return {};
}

}  // namespace

Result<std::string> FromHamiNames(std::string_view text, std::uint32_t largest) {
  Json pod = ParseJson(text);
  if (!At(pod, "metadata").is_object() || !At(pod, "spec").is_object()) {
    return std::string(text);  // no pod: others say so
  }
  std::uint32_t gpus = 0;  // of the containers so far
  std::string first;       // the container that asks for them
  for (const char* kind : {"initContainers", "containers"}) {
    if (!At(At(pod, "spec"), kind).is_array()) {
      continue;
    }
    for (Json& container : pod["spec"][kind]) {
      CGPU_ASSIGN_OR_RETURN(const auto wants, Rewrite(container, largest));
      if (wants != 0 && gpus != 0 && wants != gpus) {
        return Wrong(kHamiGpus, container,
                     std::to_string(wants) + ", and that of container " + first + " is " +
                         std::to_string(gpus),
                     "ask for " + std::to_string(gpus) + " in each: they share the pod's GPUs");
      }
      first = wants != 0 && gpus == 0 ? TextAt(container, "name") : first;
      gpus = std::max(gpus, wants);
    }
  }
  if (gpus != 0) {
    CGPU_TRY(CheckChoices(pod));
    CGPU_TRY(SetCount(pod, gpus));
  }
  return pod.dump();
}

}  // namespace cgpu::kube
