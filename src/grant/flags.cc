#include "grant/flags.h"

#include <utility>

#include "grant/env.h"

namespace cgpu {
namespace {

// What no flag says is taken from the environment, as for a container of an engine.
Result<> FillFromEnvironment(const GrantFlags& flags, FlagsRequest& request) {
  auto environment = EnvGrant(VariablesOf(flags.environment));
  if (!environment.ok()) {
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

}  // namespace

Result<FlagsRequest> RequestOf(const GrantFlags& flags) {
  FlagsRequest request;
  ResourceRequest& resources = request.resources;
  if (flags.gpus) {
    auto gpus = ParseGpus(*flags.gpus);
    if (!gpus.ok()) {
      return gpus.error();
    }
    resources.gpus.push_back(std::move(*gpus));
  }
  if (flags.memory && flags.units) {
    return Error{Code::kInvalid, 0, "--mem and --units are both given",
                 "--mem is memory per card, --units a total over the cards: give one"};
  }
  if (flags.memory || flags.units) {
    auto memory = flags.memory ? ParseSize(*flags.memory) : ParseUnits(*flags.units);
    if (!memory.ok()) {
      return memory.error();
    }
    resources.memory.push_back(*memory);
  }
  request.origin = resources.gpus.empty() && resources.memory.empty() ? "environment" : "flags";
  CGPU_TRY(FillFromEnvironment(flags, request));
  if (resources.gpus.empty() && resources.memory.empty()) {
    request.origin = "default";
  }
  return request;
}

}  // namespace cgpu
