#include "grant/flags.h"

#include <utility>

#include "grant/env.h"

namespace cgpu {
namespace {

// Takes what no flag says from the environment, as for a container of a container engine.
Result<> FillFromEnvironment(const GrantFlags& flags, SliceRequest& request) {
  auto environment = EnvGrant(VariablesOf(flags.environment));
  if (!environment.ok()) {  // GCC 12 takes the macro's value for uninitialized
    return environment.error();
  }
  ResourceRequest& resources = request.resources;
  if (resources.gpus.empty()) {
    resources.gpus = std::move(environment->resources.gpus);
    resources.whole = std::move(environment->resources.whole);
  }
  if (resources.memory.empty()) {
    resources.memory = std::move(environment->resources.memory);
  }
  request.compute = environment->compute;
  return {};
}

Result<> TakePercent(const char* name, const std::optional<std::string>& text,
                     std::optional<std::uint64_t>& value) {
  if (text) {
    CGPU_ASSIGN_OR_RETURN(value, ParsePercent(*text, name));
  }
  return {};
}

}  // namespace

Result<ComputeRequest> ComputeOf(const GrantFlags& flags) {
  ComputeRequest request;
  CGPU_TRY(TakePercent("--compute", flags.compute, request.percent));
  CGPU_TRY(TakePercent("--compute-max", flags.compute_max, request.max_percent));
  if (flags.weight) {
    CGPU_ASSIGN_OR_RETURN(request.weight, ParseNumber(*flags.weight, "--weight", 1, kMaxWeight));
  }
  if (request.percent && request.max_percent && *request.max_percent < *request.percent) {
    return Error{Code::kInvalid, 0, "--compute-max is less than --compute",
                 "--compute is guaranteed, --compute-max the most it should use"};
  }
  request.high_priority = flags.priority == "high";
  if (flags.priority && flags.priority != "high" && flags.priority != "normal") {
    return Error{Code::kInvalid, 0, "--priority is neither high nor normal", {}};
  }
  return request;
}

Result<SliceRequest> RequestOf(const GrantFlags& flags) {
  SliceRequest request;
  ResourceRequest& resources = request.resources;
  if (flags.gpus) {
    CGPU_ASSIGN_OR_RETURN(auto gpus, ParseGpus(*flags.gpus));
    resources.gpus.push_back(std::move(gpus));
  }
  if (flags.memory && flags.units) {
    return Error{Code::kInvalid, 0, "--mem and --units are both given",
                 "--mem is memory per GPU, --units a total over the GPUs: give one"};
  }
  if (flags.memory || flags.units) {
    CGPU_ASSIGN_OR_RETURN(auto memory,
                          flags.memory ? ParseSize(*flags.memory) : ParseUnits(*flags.units));
    resources.memory.push_back(memory);
  }
  request.origin = resources.gpus.empty() && resources.memory.empty() ? "environment" : "flags";
  CGPU_TRY(FillFromEnvironment(flags, request));
  if (flags.compute || flags.compute_max || flags.weight || flags.priority) {
    CGPU_ASSIGN_OR_RETURN(request.compute, ComputeOf(flags));
  }
  if (resources.gpus.empty() && resources.memory.empty()) {
    request.origin = "default";
  }
  return request;
}

}  // namespace cgpu
