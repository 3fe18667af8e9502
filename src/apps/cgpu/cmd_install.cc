// cgpu install, cgpu uninstall: the runtime `cgpu` in the configuration of a container engine.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "apps/cgpu/commands.h"
#include "cli/command_line.h"
#include "host/shim_process.h"
#include "install/file_change.h"
#include "install/plan.h"

namespace cgpu {
namespace {

struct Flags {
  install::Request request;
  std::string engine;
  bool dry_run = false;
};

std::string Names() {
  std::string names;
  for (const install::EngineFacts& facts : install::Engines()) {
    names += (names.empty() ? "" : ", ") + std::string(facts.name);
  }
  return names;
}

Result<install::Engine> EngineNamed(const std::string& name) {
  const auto& all = install::Engines();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& facts) { return facts.name == name; });
  if (found == all.end()) {
    return Error{Code::kInvalid, 0, "cgpu knows no container engine \"" + name + "\"",
                 "it knows " + Names()};
  }
  return found->engine;
}

void PrintChanges(const install::Plan& plan) {
  for (const install::Change& change : plan.changes) {
    fmt::print("{}", change.shown);
  }
  for (const std::string& note : plan.notes) {
    fmt::print("note: {}\n", note);
  }
}

void PrintDone(const install::Plan& plan) {
  using Original = install::Change::Original;
  for (const install::Change& change : plan.changes) {
    if (change.original == Original::kWrite) {
      fmt::print("{} is kept as {}\n", change.file, install::OriginalOf(change.file));
    }
    fmt::print("{} {}\n", change.file,
               !change.after.has_value()       ? "is removed"
               : change.after == change.before ? "stays as it is"
               : change.before.has_value()     ? "is changed"
                                               : "is written");
  }
}

void PrintNext(const Flags& flags) {
  const install::EngineFacts& facts = install::FactsOf(flags.request.engine);
  if (facts.reload.empty()) {
    fmt::print("next: nothing, {} reads it at each start\n", facts.name);
  } else {
    fmt::print("next: {}\n", facts.reload);
  }
  if (!flags.request.uninstall) {
    fmt::print("then: {}\n", facts.usage);
  }
}

int Change(Flags& flags) {
  const auto engine = EngineNamed(flags.engine);
  if (!engine.ok()) {
    return Fail(engine.error());
  }
  flags.request.engine = *engine;
  if (flags.request.program.empty()) {
    auto program = ProgramPath("cgpu-runtime");
    if (!program.ok()) {
      return Fail(program.error());
    }
    flags.request.program = std::move(*program);
  }
  const auto plan = install::MakePlan(flags.request, !flags.dry_run);
  if (!plan.ok()) {
    return Fail(plan.error());
  }
  PrintChanges(*plan);
  if (plan->changes.empty()) {
    fmt::print("nothing to do: {} {} the runtime cgpu\n", flags.engine,
               flags.request.uninstall ? "does not have" : "has");
    return 0;
  }
  if (flags.dry_run) {
    fmt::print("nothing was changed\n");
    return 0;
  }
  if (const auto done = install::Apply(*plan); !done.ok()) {
    return Fail(done.error());
  }
  PrintDone(*plan);
  PrintNext(flags);
  return 0;
}

// Adds the flags that both commands have.
std::shared_ptr<Flags> AddCommon(const cli::Command& command, int& status) {
  auto flags = std::make_shared<Flags>();
  command.AddOption("ENGINE", flags->engine, Names()).Required();
  command.AddOption("--config", flags->request.config,
                    "The engine's configuration, if it is not in its usual place");
  command.AddFlag("--dry-run", flags->dry_run, "Only show what would be changed");
  command.OnParsed([flags, &status] { status = Change(*flags); });
  return flags;
}

}  // namespace

void AddInstall(const cli::Command& app, int& status) {
  const cli::Command add = app.AddCommand("install", "Tell a container engine of the runtime cgpu");
  const auto flags = AddCommon(add, status);
  add.AddOption("--runtime-path", flags->request.program,
                "Where cgpu-runtime is (default: beside cgpu)");
  add.AddFlag("--set-default", flags->request.set_default,
              "For all containers, also those that do not ask for it");
  const cli::Command remove = app.AddCommand("uninstall", "Undo what `cgpu install` did");
  AddCommon(remove, status)->request.uninstall = true;
}

}  // namespace cgpu
