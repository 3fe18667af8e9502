// cgpu upgrade: gives running containers and the host's daemon this version of cgpu, without their
// noticing.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/cgpu/commands.h"
#include "cli/command_line.h"
#include "host/engine_names.h"
#include "host/event_ring.h"
#include "host/force.h"
#include "host/shim_process.h"
#include "host/upgrade.h"
#include "runtime/settings.h"

namespace cgpu {
namespace {

struct Flags {
  std::vector<std::string> containers;
  std::string program;
  bool force = false;
  bool json = false;
};

Result<> Daemon(bool quiet) {
  CGPU_ASSIGN_OR_RETURN(const auto settings, ReadSettings(kSettingsFile));
  CGPU_ASSIGN_OR_RETURN(const bool done, UpgradeDaemon(settings.socket));
  if (done && !quiet) {
    std::puts("cgpud: upgraded");
  }
  return {};
}

// Returns id and name. An engine's container without a name goes by its id.
std::string Label(const Upgraded& one) {
  return one.id == one.name ? one.id : one.id + " " + one.name;
}

void NoteUpgrade(const Upgraded& one, const std::string& to) {
  EventFields fields{{"container", one.id}, {"name", one.name}, {"to", to}};
  if (one.pause_us.ok()) {
    fields["pause_us"] = *one.pause_us;
    NoteEvent(events::kUpgraded, std::move(fields));
  } else if (one.pause_us.error().code != Code::kNotFound) {  // it has not ended
    fields["why"] = one.pause_us.error().what;
    NoteEvent(events::kUpgradeRefused, std::move(fields));
  }
}

// Ends a container that was not upgraded, so that no shim of the old version is left. Returns the
// exit status.
int End(const Registry& registry, const Upgraded& one, bool quiet) {
  const auto ended = EndByForce(registry, one.id);
  if (ended.ok()) {
    NoteEvent(events::kForced, {{"container", one.id},
                                {"name", one.name},
                                {"why", "it was not upgraded, and that was asked for"}});
  }
  if (ended.ok() || ended.error().code == Code::kNotFound) {
    if (!quiet) {
      std::printf("%s: ended\n", Label(one).c_str());
    }
    return 0;
  }
  return Fail(ended.error());
}

nlohmann::ordered_json JsonOf(const Upgraded& one) {
  nlohmann::ordered_json json{{"id", one.id}, {"name", one.name}, {"upgraded", one.pause_us.ok()}};
  if (one.pause_us.ok()) {
    json["waited_us"] = *one.pause_us;
  } else {
    json["why"] = one.pause_us.error().what;
  }
  return json;
}

void TellFailure(const Upgraded& one, bool force) {
  const Error& error = one.pause_us.error();
  // After "go" only the new version can say what happened to the container.
  const bool unknown = error.code == Code::kInternal;
  std::printf("%s: not upgraded%s: %s\n", Label(one).c_str(),
              force     ? ", and ended for that"
              : unknown ? ""
                        : ", and left as it was",
              error.what.c_str());
  if (!force && !error.hint.empty()) {
    std::printf("hint: %s\n", error.hint.c_str());
  }
}

Result<int> Upgrade(Flags& flags) {
  if (flags.force && flags.containers.empty()) {
    return Error{Code::kInvalid, 0, "--force ends containers, so it needs their ids",
                 "`cgpu ps` lists the ids"};
  }
  CGPU_ASSIGN_OR_RETURN(const auto registry, Registry::Open());
  const std::string to = flags.program.empty() ? CGPU_VERSION : flags.program;
  if (flags.program.empty()) {
    CGPU_ASSIGN_OR_RETURN(flags.program, ProgramPath("cgpu-shim"));
  }
  CGPU_ASSIGN_OR_RETURN(auto live, registry.Live());
  const auto named = WithEngineNames(std::move(live));
  for (std::string& container : flags.containers) {
    CGPU_ASSIGN_OR_RETURN(const auto one, FindNamed(container, named));
    container = one.id;
  }
  CGPU_ASSIGN_OR_RETURN(auto done, UpgradeShims(registry, flags.program, flags.containers));
  int status = 0;
  auto list = nlohmann::ordered_json::array();
  for (Upgraded& one : done) {
    NoteUpgrade(one, to);
    const auto found = std::ranges::find(named, one.id, &Reservation::id);
    one.name = found == named.end() ? one.name : found->name;
    const bool failed = !one.pause_us.ok() && one.pause_us.error().code != Code::kNotFound;
    if (flags.json && (one.pause_us.ok() || failed)) {
      list.push_back(JsonOf(one));
    } else if (one.pause_us.ok()) {
      std::printf("%s: upgraded; its calls waited %.1f ms\n", Label(one).c_str(),
                  static_cast<double>(*one.pause_us) / 1'000);
    } else if (failed) {
      TellFailure(one, flags.force);
    }
    if (failed) {
      status = flags.force ? std::max(status, End(registry, one, flags.json)) : 1;
    }
  }
  if (flags.json) {
    std::puts(list.dump(2).c_str());
  }
  if (flags.containers.empty() && geteuid() == 0) {
    CGPU_TRY(Daemon(flags.json));
  }
  return status;
}

}  // namespace

void AddUpgrade(const cli::Command& app, int& status) {
  auto flags = std::make_shared<Flags>();
  const cli::Command command = app.AddCommand(
      "upgrade", "Give running containers, and the host's daemon, this version of cgpu");
  command
      .AddOption("ID", flags->containers, "Ids, their unique beginnings, or names (default: all)")
      .Value("CONTAINER");
  command.AddOption("--program", flags->program, "The cgpu-shim to become (default: beside cgpu)")
      .Value("FILE");
  command.AddFlag("--force", flags->force,
                  "End those that cannot be upgraded: their processes and their slices");
  command.AddFlag("--json", flags->json, "As JSON: which containers were upgraded, and why not");
  OnParsed(command, status, [flags] { return Upgrade(*flags); });
}

}  // namespace cgpu
