// cgpu set: changes what a running container may use.
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "grant/flags.h"
#include "host/admin.h"
#include "host/capping.h"
#include "host/compute.h"
#include "host/engine_names.h"
#include "host/node.h"
#include "host/registry.h"
#include "host/reservation.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

struct Flags {
  MemoryChange change;
  std::string memory;
  GrantFlags compute;
  bool json = false;
};

constexpr char kNone[] = "none";  // instead of a number: withdraws that request

// Returns true if the flag is kNone, and clears the flag.
bool TakeNone(std::optional<std::string>& flag) {
  if (flag != kNone) {
    return false;
  }
  flag.reset();
  return true;
}

Result<ComputeChange> ChangeOf(const Flags& flags) {
  GrantFlags given = flags.compute;
  const bool no_percent = TakeNone(given.compute);
  const bool no_max_percent = TakeNone(given.compute_max);
  const bool no_weight = TakeNone(given.weight);
  CGPU_ASSIGN_OR_RETURN(const auto request, ComputeOf(given));
  const auto number = [](bool none, const std::optional<std::uint64_t>& value) {
    return none || value ? ComputeChange::Number(std::in_place, value) : std::nullopt;
  };
  ComputeChange change;
  change.container = flags.change.container;
  change.percent = number(no_percent, request.percent);
  change.max_percent = number(no_max_percent, request.max_percent);
  change.weight = number(no_weight, request.weight);
  if (given.priority) {
    change.high_priority = request.high_priority;
  }
  return change;
}

Result<> SetCompute(const Registry& registry, const Flags& flags) {
  if (geteuid() != 0) {
    return Error{Code::kPermission, 0, "only root may set shares of compute time",
                 "run it with sudo; a slice of `cgpu run --alone` has no share"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto change, ChangeOf(flags));
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(kSettingsFile));
  CGPU_ASSIGN_OR_RETURN(const auto now, ChangeCompute(registry, change));
  if (!flags.json) {
    std::printf("compute: %s\n", SentenceOf(now).c_str());
  }
  TellIfNobodyHoldsShares(settings.socket);
  if (const auto node = FindNode(settings.node); node.ok()) {
    TellIfNoCap(*node, now);
  }
  return AnswersOrders(registry, change.container);
}

Result<> SetMemory(const Registry& registry, const Flags& flags) {
  CGPU_ASSIGN_OR_RETURN(const auto gpus, ChangeMemory(registry, flags.change));
  if (flags.json) {
    return {};
  }
  for (const GpuStatus& gpu : gpus) {
    std::printf("GPU %u: %" PRIu64 " MiB\n", gpu.index, gpu.limit_bytes / kMib);
    if (gpu.used_bytes > gpu.limit_bytes) {
      std::printf("GPU %u: %" PRIu64
                  " MiB are in use, above the new limit; nothing is taken away, but growth "
                  "is stopped until use falls below it, and other containers get what is free then "
                  "only after another `cgpu set`\n",
                  gpu.index, (gpu.used_bytes + kMib - 1) / kMib);
    }
  }
  return {};
}

// Tells what the container has now, and how long it keeps that.
Result<> TellResult(const Registry& registry, const Reservation& one, bool json) {
  if (!json) {
    if (!one.engine_id.empty()) {
      std::puts("A restart of the container gives back what it was started with.");
    }
    return {};
  }
  CGPU_ASSIGN_OR_RETURN(auto containers, ListWithProcesses(registry));
  std::erase_if(containers, [&](const ContainerStatus& other) { return other.id != one.id; });
  TakeNames({one}, containers);
  PrintJson(containers);
  return {};
}

Result<int> Set(Flags& flags) {
  const GrantFlags& given = flags.compute;
  const bool compute = given.compute || given.compute_max || given.weight || given.priority;
  if (!compute && flags.memory.empty()) {
    return Error{Code::kInvalid, 0, "nothing is to be set",
                 "give --mem, --compute, --compute-max, --weight or --priority"};
  }
  if (compute && !flags.change.gpu.empty()) {
    return Error{Code::kInvalid, 0, "compute is set for all GPUs of a container alike",
                 "leave --gpu out"};
  }
  if (!flags.memory.empty()) {
    CGPU_ASSIGN_OR_RETURN(flags.change.memory, ParseSize(flags.memory));
  }
  CGPU_TRY(ChangeOf(flags));  // before anything is set, all is understood
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  CGPU_ASSIGN_OR_RETURN(const auto live, registry.Live());
  CGPU_ASSIGN_OR_RETURN(const auto one, FindNamed(flags.change.container, WithEngineNames(live)));
  flags.change.container = one.id;
  CGPU_TRY(compute ? SetCompute(registry, flags) : Result<>());
  CGPU_TRY(flags.memory.empty() ? Result<>() : SetMemory(registry, flags));
  CGPU_TRY(TellResult(registry, one, flags.json));
  return 0;
}

}  // namespace

void AddSet(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand("set", "Change the limits of a running container");
  command.AddOption("ID", flags->change.container, "Id, its unique beginning, or name")
      .Value("CONTAINER")
      .Required();
  command.AddOption("--mem", flags->memory, "Memory per GPU: 4096MiB, 4GiB, 4G, 25%");
  command.AddText("--compute", flags->compute.compute,
                  "Percent of compute time, guaranteed; none: an equal share");
  command.AddText("--compute-max", flags->compute.compute_max,
                  "Percent it may use at the most (on GPUs that cap), or none");
  command.AddText("--weight", flags->compute.weight, "1 to 100, or none");
  command.AddText("--priority", flags->compute.priority, "high or normal").Value("high|normal");
  command.AddOption("--gpu", flags->change.gpu,
                    "The container's own GPU, from 0, or its UUID (default: all its GPUs)");
  command.AddFlag("--json", flags->json, "Print what it has then, as cgpu ps --json does");
  OnParsed(command, status, [flags] { return Set(*flags); });
}

}  // namespace cgpu
