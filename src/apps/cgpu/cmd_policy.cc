// cgpu policy: sets how the compute time of GPUs is divided, and how many slices they may have.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "calibration/record.h"
#include "cli/command_line.h"
#include "governor/policy.h"
#include "host/capping.h"
#include "host/compute.h"
#include "host/node.h"
#include "host/saved_settings.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

struct Flags {
  std::string gpu;
  std::string policy;
  std::string max_inst;
  std::string prio_ratio;
  bool reset = false;
  bool json = false;
  std::string node;
};

Result<std::vector<Gpu>> GpusOf(const Flags& flags, const Node& node) {
  GpuRequest request;
  if (!flags.gpu.empty()) {
    request.kind = GpuRequest::Kind::kDevices;
    request.devices = {flags.gpu};
  }
  return SelectGpus(request, node.gpus);
}

// Returns what the flags set.
Result<SavedSettings> ChangeOf(const cli::Command& command, const Flags& flags) {
  SavedSettings change;
  if (!flags.policy.empty()) {
    CGPU_ASSIGN_OR_RETURN(change.policy, ParsePolicyOrAuto(flags.policy));
  }
  if (command.Count("--max-inst") > 0) {
    CGPU_ASSIGN_OR_RETURN(change.max_inst, ParseMaxInst(flags.max_inst));
  }
  if (command.Count("--prio-ratio") > 0) {
    CGPU_ASSIGN_OR_RETURN(change.prio_ratio, ParsePrioRatio(flags.prio_ratio));
  }
  if (flags.gpu.empty() && (flags.reset || !change.empty())) {
    return Error{Code::kInvalid, 0, "no GPU is named to set this for",
                 "name one: cgpu policy 0 ..."};
  }
  if (flags.reset && !change.empty()) {
    return Error{Code::kInvalid, 0, "--reset forgets what other words of the command set",
                 "give --reset alone"};
  }
  return change;
}

// Sets it. The host's own GPUs keep it over boots.
Result<> Set(const Flags& flags, const SavedSettings& change, const Settings& settings,
             const Registry& registry, const Gpu& gpu) {
  const std::string saved = flags.node.empty() ? kSavedFile : "";
  if (!flags.reset) {
    return ChangeGpu(registry, gpu, change, saved);
  }
  const auto found = settings.policies.find(gpu.uuid);
  return ResetGpu(registry, gpu,
                  found == settings.policies.end() ? std::nullopt : std::optional(found->second),
                  saved);
}

Result<int> Run(const cli::Command& command, const Flags& flags) {
  if ((command.Count("GPU") > 0 && flags.gpu.empty()) ||
      (command.Count("POLICY") > 0 && flags.policy.empty())) {
    return Error{Code::kInvalid, 0, "the name of a GPU or of a policy is empty",
                 "name one, or leave both out to see them all: `cgpu policy`"};
  }
  if (geteuid() != 0) {  // settings that other users keep do not hold
    return Error{Code::kPermission, 0, "only root may see and set how GPUs are shared",
                 "run it with sudo"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto change, ChangeOf(command, flags));
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(kSettingsFile));
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(flags.node.empty() ? settings.node : flags.node));
  CGPU_ASSIGN_OR_RETURN(const auto gpus, GpusOf(flags, node));
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  if (flags.reset || !change.empty()) {
    CGPU_TRY(Set(flags, change, settings, registry, gpus.front()));
    TellIfNobodyHoldsShares(settings.socket);
  }
  CGPU_ASSIGN_OR_RETURN(const auto all, SettingsOf(registry, gpus));
  auto list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const GpuSettings& now = all[i];
    const std::string policy(NameOf(now.PolicyNow()));
    const CardMeans means = MeansOf(node, gpus[i].uuid);
    const governor::Effect slices = means.card.slices;
    const bool caps = means.capping != governor::Capping::kNone;
    const unsigned max_inst = now.max_inst.value_or(settings.max_inst);
    const unsigned prio_ratio = now.prio_ratio.value_or(governor::kDefaultPrioRatio);
    list.push_back({{"index", gpus[i].index},
                    {"uuid", gpus[i].uuid},
                    {"policy", policy},
                    {"number", static_cast<int>(now.PolicyNow())},
                    {"max_inst", max_inst},
                    {"prio_ratio", prio_ratio},
                    {"caps", caps},
                    {"capping", NameOf(means.capping)},
                    {"time_slices", NameOf(slices)}});
    if (!flags.json) {
      std::printf("GPU %u: %s (%d), max-inst %u, prio-ratio %u%s%s\n", gpus[i].index,
                  policy.c_str(), static_cast<int>(now.PolicyNow()), max_inst, prio_ratio,
                  caps ? "" : "; shares, no caps",
                  slices == governor::Effect::kUnknown
                      ? ""
                      : ("; time slices take effect " + std::string(Describe(slices))).c_str());
    }
  }
  if (flags.json) {
    std::puts(list.dump(2).c_str());
  }
  return 0;
}

std::string PolicyNames() {
  std::string names;
  for (const auto policy : governor::kPolicies) {
    names.append(governor::NameOf(policy)).append("|");
  }
  return names + "auto";
}

}  // namespace

void AddPolicy(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command =
      app.AddCommand("policy", "Show or set how a GPU is shared: compute time, slices; root");
  command.AddOption("GPU", flags->gpu, "Its index, or UUID (default: show all)");
  command
      .AddOption("POLICY", flags->policy,
                 "Its name, or its number, from 0; auto: as the first container asks")
      .Value(PolicyNames());
  command.AddOption("--max-inst", flags->max_inst, "Slices that it may have at a time, 1 to 64");
  command.AddOption("--prio-ratio", flags->prio_ratio,
                    "Percent that containers of high priority may take together, 20 to 99");
  command.AddFlag("--reset", flags->reset,
                  "Forget what was set; what config.yaml says holds again");
  command.AddFlag("--json", flags->json, "As JSON");
  command.AddOption("--node", flags->node, "A simulated node instead of the driver").Value("NODE");
  OnParsed(command, status, [flags, command] { return Run(command, *flags); });
}

}  // namespace cgpu
