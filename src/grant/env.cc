#include "grant/env.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

namespace cgpu {
namespace {

constexpr std::uint64_t kMaxParts = std::uint64_t{1} << 32;

using Environment = std::map<std::string, std::string>;

// All names that are read below.
constexpr std::array<std::string_view, 13> kNames = {"ALIYUN_COM_GPU_MEM_CONTAINER",
                                                     "ALIYUN_COM_GPU_MEM_DEV",
                                                     "ALIYUN_COM_GPU_VISIBLE_DEVICES",
                                                     "ALIYUN_COM_GPU_SCHD_WEIGHT",
                                                     "ALIYUN_COM_GPU_HIGH_PRIO",
                                                     "NVIDIA_VISIBLE_DEVICES",
                                                     "CGPU_MEM",
                                                     "CGPU_DEVICES",
                                                     "CGPU_COMPUTE",
                                                     "CGPU_COMPUTE_MAX",
                                                     "CGPU_WEIGHT",
                                                     "CGPU_PRIORITY",
                                                     "CGPU_DISABLE"};

bool IsRead(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end();
}

// Returns how many letters must be added, left out or changed to make one text of the other.
std::size_t Distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Returns the name of this project that another name of it was meant to be; "" if it is no such
// mistake. Kubernetes makes names of its own for a service "cgpu": those are unlike all.
std::string_view Meant(std::string_view name) {
  constexpr std::string_view kOurs = "CGPU_";
  constexpr std::size_t kShort = 4;  // letters of a word in which one may be wrong, else two
  constexpr std::size_t kLongest = 32;
  if (!name.starts_with(kOurs) || name.size() > kLongest || IsRead(name)) {
    return {};
  }
  const std::string_view word = name.substr(kOurs.size());
  for (const std::string_view known : kNames) {
    if (!known.starts_with(kOurs)) {
      continue;
    }
    const std::string_view right = known.substr(kOurs.size());
    if (Distance(word, right) <= (word.size() <= kShort ? 1 : 2)) {
      return known;
    }
  }
  return word == "MEMORY" || word == "VRAM" ? "CGPU_MEM" : word == "GPUS" ? "CGPU_DEVICES" : "";
}

Result<> RefuseMisspelt(const Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (const std::string_view meant = Meant(name); !meant.empty()) {
      return Error{Code::kInvalid, 0, name + " is no variable that cgpu knows",
                   "did you mean " + std::string(meant) + "?"};
    }
  }
  return {};
}

const std::string* Find(const Environment& environment, const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() ? nullptr : &it->second;
}

Error Naming(const std::string& name, Error error) {
  error.what = name + ": " + error.what;
  return error;
}

// Returns a yes or no as cGPU writes it.
Result<bool> Flag(const Environment& environment, const std::string& name) {
  const std::string* text = Find(environment, name);
  if (text == nullptr || *text == "0" || *text == "false" || text->empty()) {
    return false;
  }
  if (*text == "1" || *text == "true") {
    return true;
  }
  return Error{Code::kInvalid, 0, name + " is neither true nor false",
               "set it to 1 or 0, or leave it out"};
}

Result<std::optional<std::uint64_t>> Number(const Environment& environment, const std::string& name,
                                            std::uint64_t low, std::uint64_t high) {
  const std::string* text = Find(environment, name);
  if (text == nullptr) {
    return std::optional<std::uint64_t>();
  }
  CGPU_ASSIGN_OR_RETURN(auto number, ParseNumber(*text, name, low, high));
  return std::optional(number);
}

Result<std::optional<std::uint64_t>> Percent(const Environment& environment,
                                             const std::string& name) {
  const std::string* text = Find(environment, name);
  if (text == nullptr) {
    return std::optional<std::uint64_t>();
  }
  CGPU_ASSIGN_OR_RETURN(auto percent, ParsePercent(*text, name));
  return std::optional(percent);
}

// Adds the fraction ALIYUN_COM_GPU_MEM_CONTAINER of ALIYUN_COM_GPU_MEM_DEV. The unit variable
// beside them does not matter to a ratio.
Result<> AddFraction(const Environment& environment, ResourceRequest& resources) {
  CGPU_ASSIGN_OR_RETURN(auto part,
                        Number(environment, "ALIYUN_COM_GPU_MEM_CONTAINER", 1, kMaxParts));
  if (!part.has_value()) {
    return {};
  }
  CGPU_ASSIGN_OR_RETURN(auto whole, Number(environment, "ALIYUN_COM_GPU_MEM_DEV", 1, kMaxParts));
  if (!whole.has_value()) {
    return Error{Code::kInvalid, 0,
                 "ALIYUN_COM_GPU_MEM_CONTAINER is set without ALIYUN_COM_GPU_MEM_DEV",
                 "set ALIYUN_COM_GPU_MEM_DEV to the memory of the whole GPU"};
  }
  if (*part > *whole) {
    return Error{Code::kInvalid, 0,
                 "ALIYUN_COM_GPU_MEM_CONTAINER=" + std::to_string(*part) +
                     " is more than ALIYUN_COM_GPU_MEM_DEV=" + std::to_string(*whole),
                 "a container cannot have more than the GPU"};
  }
  resources.memory.push_back({MemoryRequest::Kind::kFraction, *part, *whole});
  return {};
}

Result<> AddMemory(const Environment& environment, ResourceRequest& resources) {
  CGPU_TRY(AddFraction(environment, resources));
  if (const std::string* text = Find(environment, "CGPU_MEM")) {
    auto size = ParseSize(*text);
    if (!size.ok()) {
      return Naming("CGPU_MEM", size.error());
    }
    resources.memory.push_back(*size);
  }
  return {};
}

// Replaces CDI names by indices: "nvidia.com/gpu=0" is GPU 0.
std::string WithoutCdiNames(std::string list) {
  for (const std::string_view kind : {"runtime.nvidia.com/gpu=", "nvidia.com/gpu="}) {
    for (std::size_t at = 0; (at = list.find(kind, at)) != std::string::npos;) {
      list.erase(at, kind.size());
    }
  }
  return list;
}

// Adds GPUs by Alibaba Cloud's rule for NVIDIA's variable beside the others: GPUs that those do not
// name stay whole.
Result<> AddNvidiaGpus(const Environment& environment, ResourceRequest& resources) {
  constexpr const char* kName = "NVIDIA_VISIBLE_DEVICES";
  const std::string* text = Find(environment, kName);
  for (const char* none : {"", "void", "none", "all"}) {
    if (text == nullptr || *text == none) {
      return {};
    }
  }
  auto gpus = ParseDeviceList(WithoutCdiNames(*text));
  if (!gpus.ok()) {
    return Naming(kName, gpus.error());
  }
  if (gpus->kind != GpuRequest::Kind::kDevices) {  // "nvidia.com/gpu=all"
    return {};
  }
  if (resources.gpus.empty()) {
    resources.gpus.push_back(std::move(*gpus));
  } else {
    resources.whole = std::move(*gpus);
  }
  return {};
}

Result<> AddGpus(const Environment& environment, ResourceRequest& resources) {
  for (const char* name : {"ALIYUN_COM_GPU_VISIBLE_DEVICES", "CGPU_DEVICES"}) {
    if (const std::string* text = Find(environment, name)) {
      auto gpus = ParseDeviceList(*text);
      if (!gpus.ok()) {
        return Naming(name, gpus.error());
      }
      resources.gpus.push_back(std::move(*gpus));
    }
  }
  return AddNvidiaGpus(environment, resources);
}

Result<> AddCompute(const Environment& environment, ComputeRequest& request) {
  CGPU_ASSIGN_OR_RETURN(auto percent, Percent(environment, "CGPU_COMPUTE"));
  CGPU_ASSIGN_OR_RETURN(auto most, Percent(environment, "CGPU_COMPUTE_MAX"));
  if (percent.has_value() && most.has_value() && *most < *percent) {
    return Error{Code::kInvalid, 0, "CGPU_COMPUTE_MAX is less than CGPU_COMPUTE",
                 "CGPU_COMPUTE is guaranteed, CGPU_COMPUTE_MAX the most it should use"};
  }
  request.percent = percent;
  request.max_percent = most;
  return {};
}

Result<> AddWeight(const Environment& environment, ComputeRequest& request) {
  CGPU_ASSIGN_OR_RETURN(auto theirs,
                        Number(environment, "ALIYUN_COM_GPU_SCHD_WEIGHT", 1, kMaxWeight));
  CGPU_ASSIGN_OR_RETURN(auto ours, Number(environment, "CGPU_WEIGHT", 1, kMaxWeight));
  if (theirs.has_value() && ours.has_value() && *theirs != *ours) {
    return Error{Code::kConflict, 0, "ALIYUN_COM_GPU_SCHD_WEIGHT and CGPU_WEIGHT differ",
                 "set one of them"};
  }
  request.weight = ours.has_value() ? ours : theirs;
  return {};
}

Result<> AddPriority(const Environment& environment, ComputeRequest& request) {
  CGPU_ASSIGN_OR_RETURN(auto theirs, Flag(environment, "ALIYUN_COM_GPU_HIGH_PRIO"));
  request.high_priority = theirs;
  const std::string* ours = Find(environment, "CGPU_PRIORITY");
  if (ours == nullptr) {
    return {};
  }
  if (*ours != "high" && *ours != "normal") {
    return Error{Code::kInvalid, 0, "CGPU_PRIORITY is neither high nor normal", {}};
  }
  if (Find(environment, "ALIYUN_COM_GPU_HIGH_PRIO") != nullptr && theirs != (*ours == "high")) {
    return Error{Code::kConflict, 0, "ALIYUN_COM_GPU_HIGH_PRIO and CGPU_PRIORITY differ",
                 "set one of them"};
  }
  request.high_priority = *ours == "high";
  return {};
}

// Applies Alibaba Cloud's rule: without _MEM_CONTAINER, its other names mean nothing.
bool IsManaged(const Environment& environment) {
  for (const char* name : {"ALIYUN_COM_GPU_MEM_CONTAINER", "CGPU_MEM", "CGPU_DEVICES",
                           "CGPU_COMPUTE", "CGPU_COMPUTE_MAX", "CGPU_WEIGHT", "CGPU_PRIORITY"}) {
    if (Find(environment, name) != nullptr) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::map<std::string, std::string> VariablesOf(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> variables;
  for (const std::string& variable : environment) {
    const std::size_t at = std::min(variable.find('='), variable.size());
    variables.insert_or_assign(variable.substr(0, at),
                               at == variable.size() ? "" : variable.substr(at + 1));
  }
  return variables;
}

std::vector<std::string> GrantVariables(const std::vector<std::string>& environment) {
  std::vector<std::string> some;
  std::ranges::copy_if(environment, std::back_inserter(some), [](const std::string& variable) {
    const std::size_t at = variable.find('=');
    const std::string_view name = std::string_view(variable).substr(0, at);
    return at != std::string::npos && (IsRead(name) || !Meant(name).empty());
  });
  return some;
}

Result<EnvRequest> EnvGrant(const std::map<std::string, std::string>& environment) {
  EnvRequest request;
  CGPU_TRY(RefuseMisspelt(environment));
  CGPU_ASSIGN_OR_RETURN(auto disabled, Flag(environment, "CGPU_DISABLE"));
  if (disabled) {
    request.mode = EnvRequest::Mode::kDisabled;
    return request;
  }
  if (!IsManaged(environment)) {
    return request;
  }
  request.mode = EnvRequest::Mode::kManaged;
  CGPU_TRY(AddMemory(environment, request.resources));
  CGPU_TRY(AddGpus(environment, request.resources));
  CGPU_ASSIGN_OR_RETURN(request.compute, EnvWeightAndPriority(environment));
  CGPU_TRY(AddCompute(environment, request.compute));
  return request;
}

Result<ComputeRequest> EnvWeightAndPriority(const Environment& environment) {
  ComputeRequest request;
  CGPU_TRY(RefuseMisspelt(environment));
  CGPU_TRY(AddWeight(environment, request));
  CGPU_TRY(AddPriority(environment, request));
  return request;
}

}  // namespace cgpu
