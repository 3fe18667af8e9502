// cgpu install, cgpu uninstall: the runtime `cgpu` in the configuration of a container engine.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/cgpu/commands.h"
#include "cli/command_line.h"
#include "host/shim_process.h"
#include "install/install.h"

namespace cgpu {
namespace {

struct Flags {
  install::Request request;
  std::string engine;
  bool all = false;
};

std::string Names(const char* separator) {
  std::string names;
  for (const install::EngineFacts& facts : install::Engines()) {
    names += (names.empty() ? "" : separator) + std::string(facts.name);
  }
  return names;
}

Result<install::Engine> EngineNamed(const std::string& name) {
  const auto& all = install::Engines();
  const auto found =
      std::ranges::find_if(all, [&](const auto& facts) { return facts.name == name; });
  if (found == all.end()) {
    return Error{Code::kInvalid, 0, "cgpu knows no container engine \"" + name + "\"",
                 "it knows " + Names(", ")};
  }
  return found->engine;
}

void PrintNext(const Flags& flags) {
  const install::EngineFacts& facts = install::FactsOf(flags.request.engine);
  const std::string next(SystemdRuns() ? facts.reload : facts.reload_without_systemd);
  if (next.empty()) {
    std::printf("next: nothing, %s reads it at each start\n", std::string(facts.name).c_str());
  } else {
    std::printf("next: %s\n", next.c_str());
  }
  if (!flags.request.uninstall) {
    std::printf("then: %s\n", std::string(facts.usage).c_str());
  }
}

Result<int> Change(Flags& flags) {
  CGPU_ASSIGN_OR_RETURN(flags.request.engine, EngineNamed(flags.engine));
  if (flags.request.program.empty()) {
    CGPU_ASSIGN_OR_RETURN(flags.request.program, ProgramPath("cgpu-runtime"));
  }
  CGPU_ASSIGN_OR_RETURN(const auto report, install::Change(flags.request));
  std::fputs(report.shown.c_str(), stdout);
  if (!report.change) {
    std::printf("nothing to do: %s %s the runtime cgpu\n", flags.engine.c_str(),
                flags.request.uninstall ? "does not have" : "has");
    return 0;
  }
  if (flags.request.dry_run) {
    std::puts("nothing was changed");
    return 0;
  }
  std::fputs(report.done.c_str(), stdout);
  PrintNext(flags);
  return 0;
}

// Takes the runtime out of the configuration of every engine of this host. An engine whose
// configuration cannot be changed does not keep it in the others.
Result<int> RemoveAll(Flags& flags) {
  int status = 0;
  for (const install::EngineFacts& facts : install::Engines()) {
    flags.request.engine = facts.engine;
    const auto report = install::Change(flags.request);
    if (!report.ok()) {
      status = Fail(report.error());
    } else if (report->change) {
      std::fputs((report->shown + report->done).c_str(), stdout);
      if (!flags.request.dry_run) {
        PrintNext(flags);
      }
    }
  }
  return status;
}

Result<int> Remove(Flags& flags) {
  if (flags.all) {
    return RemoveAll(flags);
  }
  if (flags.engine.empty()) {
    return Error{Code::kInvalid, 0, "no container engine is named",
                 "name one of " + Names(", ") + ", or give --all"};
  }
  return Change(flags);
}

// Adds the flags that both commands have.
void AddCommon(const cli::Command& command, Flags& flags) {
  command
      .AddOption("--config", flags.request.config,
                 "The engine's configuration, if it is not in its usual place")
      .Value("FILE");
  command.AddFlag("--dry-run", flags.request.dry_run, "Only show what would be changed");
}

}  // namespace

void AddInstall(const cli::Command& app, int& status) {
  const cli::Command add = app.AddCommand("install", "Tell a container engine of the runtime cgpu");
  auto flags = std::make_shared<Flags>();
  add.AddOption("ENGINE", flags->engine, "The container engine").Value(Names("|")).Required();
  AddCommon(add, *flags);
  add.AddOption("--runtime-path", flags->request.program,
                "Where cgpu-runtime is (default: beside cgpu)")
      .Value("FILE");
  add.AddFlag("--set-default", flags->request.set_default,
              "For all containers, also those that do not ask for it");
  OnParsed(add, status, [flags] { return Change(*flags); });

  const cli::Command remove = app.AddCommand("uninstall", "Undo what `cgpu install` did");
  auto removed = std::make_shared<Flags>();
  removed->request.uninstall = true;
  remove.AddOption("ENGINE", removed->engine, "The container engine").Value(Names("|"));
  AddCommon(remove, *removed);
  remove.AddFlag("--all", removed->all, "In all engines, where their configuration usually is")
      .Excludes("ENGINE")
      .Excludes("--config");
  OnParsed(remove, status, [removed] { return Remove(*removed); });
}

}  // namespace cgpu
