// cgpu policy: sets how the compute time of GPUs is divided.
#include <fmt/core.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cgpu/commands.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "governor/policy.h"
#include "launcher/compute.h"
#include "launcher/node.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

struct Flags {
  std::string gpu;
  std::string policy;
  std::string node;
};

Result<std::vector<Card>> CardsOf(const Flags& flags, const Settings& settings) {
  CGPU_ASSIGN_OR_RETURN(const auto node, FindNode(flags.node.empty() ? settings.node : flags.node));
  GpuRequest request;
  if (!flags.gpu.empty()) {
    request.kind = GpuRequest::Kind::kDevices;
    request.devices = {flags.gpu};
  }
  return SelectCards(request, node.cards);
}

// Saves the settings that hold now, so that of two settings made at once both stay.
Result<> Save(const Registry& registry, const Card& card) {
  CGPU_ASSIGN_OR_RETURN(const auto lock, registry.Lock());
  const auto settings = registry.SettingsOf(lock, card.uuid);
  return settings.ok() ? SavePolicy(kSettingsFile, card.uuid, settings->policy)
                       : Result<>(settings.error());
}

// Sets it. The machine's own GPUs keep it over restarts.
Result<> Set(const Flags& flags, const Registry& registry, const Card& card) {
  std::optional<governor::Policy> wanted;
  if (flags.policy != "auto") {
    CGPU_ASSIGN_OR_RETURN(wanted, governor::ParsePolicy(flags.policy));
  }
  CGPU_TRY(SetPolicy(registry, card, wanted));
  return flags.node.empty() ? Save(registry, card) : Result<>();
}

Result<> Run(const Flags& flags) {
  if (geteuid() != 0) {  // settings that other users keep do not hold
    return Error{Code::kPermission, 0, "how cards are shared out is root's to see and to set",
                 "run it with sudo"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(kSettingsFile));
  CGPU_ASSIGN_OR_RETURN(const auto cards, CardsOf(flags, settings));
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  if (!flags.policy.empty()) {
    CGPU_TRY(Set(flags, registry, cards.front()));
    TellIfNobodyHoldsShares(settings.socket);
  }
  CGPU_ASSIGN_OR_RETURN(const auto policies, PoliciesOf(registry, cards));
  for (std::size_t i = 0; i < cards.size(); ++i) {
    fmt::print("GPU {}: {} ({})\n", (cards)[i].index, NameOf((policies)[i]),
               static_cast<int>((policies)[i]));
  }
  return {};
}

}  // namespace

void AddPolicy(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command =
      app.AddCommand("policy", "Show or set how a card's compute time is shared out; root");
  command.AddOption("GPU", flags->gpu, "Its index, or UUID (default: show all)");
  command.AddOption(
      "POLICY", flags->policy,
      "fair (0), preempt (1), weight (2), fixed (3), soft (4), native (5); or auto: as the "
      "first container asks");
  command.AddOption("--node", flags->node, "A simulated node instead of the driver");
  command.OnParsed([flags, command, &status] {
    const bool nothing = (command.Count("GPU") > 0 && flags->gpu.empty()) ||
                         (command.Count("POLICY") > 0 && flags->policy.empty());
    const auto done =
        nothing ? Result<>(Error{Code::kInvalid, 0, "the name of a GPU or of a policy is empty",
                                 "leave it out, or see `cgpu policy --help`"})
                : Run(*flags);
    status = done.ok() ? 0 : Fail(done.error());
  });
}

}  // namespace cgpu
