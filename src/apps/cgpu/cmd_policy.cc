// cgpu policy: how the compute time of cards is shared out.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cgpu/commands.h"
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
  const auto node = FindNode(flags.node.empty() ? settings.node : flags.node);
  if (!node.ok()) {
    return node.error();
  }
  GpuRequest request;
  if (!flags.gpu.empty()) {
    request.kind = GpuRequest::Kind::kDevices;
    request.devices = {flags.gpu};
  }
  return SelectCards(request, node->cards);
}

// What holds now, so that of two who set something at once both do.
Result<> Save(const Registry& registry, const Card& card) {
  const auto lock = registry.Lock();
  if (!lock.ok()) {
    return lock.error();
  }
  const auto settings = registry.SettingsOf(*lock, card.uuid);
  return settings.ok() ? SavePolicy(kSettingsFile, card.uuid, settings->policy)
                       : Result<>(settings.error());
}

// The machine's own cards keep it over restarts.
Result<> Set(const Flags& flags, const Registry& registry, const Card& card) {
  std::optional<governor::Policy> wanted;
  if (flags.policy != "auto") {
    const auto policy = governor::ParsePolicy(flags.policy);
    if (!policy.ok()) {
      return policy.error();
    }
    wanted = *policy;
  }
  CGPU_TRY(SetPolicy(registry, card, wanted));
  return flags.node.empty() ? Save(registry, card) : Result<>();
}

Result<> Run(const Flags& flags) {
  if (geteuid() != 0) {  // what others keep of the cards is not what holds
    return Error{Code::kPermission, 0, "how cards are shared out is root's to see and to set",
                 "run it with sudo"};
  }
  const auto settings = ReadSettings(kSettingsFile);
  if (!settings.ok()) {
    return settings.error();
  }
  const auto cards = CardsOf(flags, *settings);
  if (!cards.ok()) {
    return cards.error();
  }
  const auto registry = Registry::Open();
  if (!registry.ok()) {
    return registry.error();
  }
  if (!flags.policy.empty()) {
    CGPU_TRY(Set(flags, *registry, cards->front()));
    TellIfNobodyHoldsShares(settings->socket);
  }
  const auto policies = PoliciesOf(*registry, *cards);
  if (!policies.ok()) {
    return policies.error();
  }
  for (std::size_t i = 0; i < cards->size(); ++i) {
    fmt::print("GPU {}: {} ({})\n", (*cards)[i].index, NameOf((*policies)[i]),
               static_cast<int>((*policies)[i]));
  }
  return {};
}

}  // namespace

void AddPolicy(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* const command =
      app.add_subcommand("policy", "Show or set how a card's compute time is shared out; root");
  command->add_option("GPU", flags->gpu, "Its index, or UUID (default: show all)");
  command->add_option(
      "POLICY", flags->policy,
      "fair (0), preempt (1), weight (2), fixed (3), soft (4), native (5); or auto: as the "
      "first container asks");
  command->add_option("--node", flags->node, "A simulated node instead of the driver");
  command->callback([flags, command, &status] {
    const bool nothing = (command->count("GPU") > 0 && flags->gpu.empty()) ||
                         (command->count("POLICY") > 0 && flags->policy.empty());
    const auto done =
        nothing ? Result<>(Error{Code::kInvalid, 0, "the name of a GPU or of a policy is empty",
                                 "leave it out, or see `cgpu policy --help`"})
                : Run(*flags);
    status = done.ok() ? 0 : Fail(done.error());
  });
}

}  // namespace cgpu
