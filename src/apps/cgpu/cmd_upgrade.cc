// cgpu upgrade: gives running containers and the host's daemon this version of cgpu, without their
// noticing.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/cgpu/commands.h"
#include "cli/command_line.h"
#include "host/force.h"
#include "host/shim_process.h"
#include "host/upgrade.h"
#include "protocol/creation.h"

namespace cgpu {
namespace {

struct Flags {
  std::vector<std::string> containers;
  std::string program;
  bool force = false;
};

int Daemon() {
  const auto done = UpgradeDaemon(kDaemonSocket);
  if (!done.ok()) {
    return Fail(done.error());
  }
  if (*done) {
    fmt::print("cgpud: upgraded\n");
  }
  return 0;
}

// Ends a container that was not upgraded, so that no shim of the old version is left. Returns the
// exit status.
int End(const Registry& registry, const Upgraded& one) {
  const auto ended = EndByForce(registry, one.id);
  if (ended.ok() || ended.error().code == Code::kNotFound) {
    fmt::print("{} {}: ended\n", one.id, one.name);
    return 0;
  }
  return Fail(ended.error());
}

int Upgrade(Flags& flags) {
  if (flags.force && flags.containers.empty()) {
    return Fail(Error{Code::kInvalid, 0, "--force ends containers, so it wants their names",
                      "give their ids: cgpu ps"});
  }
  const auto registry = Registry::Open();
  if (!registry.ok()) {
    return Fail(registry.error());
  }
  if (flags.program.empty()) {
    const auto program = ProgramPath("cgpu-shim");
    if (!program.ok()) {
      return Fail(program.error());
    }
    flags.program = *program;
  }
  const auto done = UpgradeShims(*registry, flags.program, flags.containers);
  if (!done.ok()) {
    return Fail(done.error());
  }
  int status = 0;
  for (const Upgraded& one : *done) {
    if (one.pause_us.ok()) {
      fmt::print("{} {}: upgraded; its calls waited {:.1f} ms\n", one.id, one.name,
                 static_cast<double>(*one.pause_us) / 1'000);
    } else if (one.pause_us.error().code != Code::kNotFound) {
      // After "go" only the new version can say what happened to the container.
      const bool unknown = one.pause_us.error().code == Code::kInternal;
      fmt::print("{} {}: not upgraded{}: {}\n", one.id, one.name,
                 flags.force ? ", and ended for that"
                 : unknown   ? ""
                             : ", and left as it was",
                 one.pause_us.error().what);
      status = flags.force ? std::max(status, End(*registry, one)) : 1;
    }
  }
  return flags.containers.empty() && geteuid() == 0 ? std::max(status, Daemon()) : status;
}

}  // namespace

void AddUpgrade(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand(
      "upgrade", "Give running containers, and the node's daemon, this version of cgpu");
  command.AddOption("ID", flags->containers,
                    "Ids, their unique beginnings, or names (default: all)");
  command.AddOption("--program", flags->program, "The cgpu-shim to become (default: beside cgpu)");
  command.AddFlag("--force", flags->force,
                  "End those that cannot be upgraded: their processes and their slices");
  command.OnParsed([flags, &status] { status = Upgrade(*flags); });
}

}  // namespace cgpu
